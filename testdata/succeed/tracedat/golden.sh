# Stores beside each recording what trace-cmd prints for it. Run it in this folder when a recording is
# added or replaced, with the trace-cmd the README names.
for dat in *.dat; do
    source=$dat
    # Debian's trace-cmd is built without zlib; the same events uncompressed stand in.
    [ "$dat" = v7-zlib.dat ] && source=v7-none.dat
    trace-cmd report -N -R -t -i "$source" 2> /dev/null | zstd -q -19 -f -o "${dat%.dat}.report.zst"
done
