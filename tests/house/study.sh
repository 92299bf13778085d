#!/usr/bin/env bash
# A study of the benchmark: carries plans/study-NAME.toml out, or goes on with it, and makes docs/studies/NAME.md's results
# from what it gave. `make study NAME=...` has installed and built everything before.
#   study.sh NAME [FOLDER]     results go to FOLDER, or to the cache
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:?which study? one of $(cd plans && echo study-*.toml)}
plan=plans/study-$name.toml
results=${2:-$TRANSECT_CACHE/studies/$name}
transect=$(realpath "${CARGO_TARGET_DIR:-target}")/release/transect
[[ -e $plan ]] || { echo "study: there is no $plan" >&2; exit 2; }

if [[ -e $results/plan.toml ]]; then
    # What is finished is not done again; results of another plan are not this study's.
    cmp -s "$plan" "$results/plan.toml" ||
        { echo "study: $results is of another plan than $plan: remove it, or name another folder" >&2; exit 2; }
    "$transect" bench resume "$results"
else
    mkdir -p "$(dirname "$results")"
    "$transect" bench run "$plan" -o "$results"
fi

out=docs/studies/$name page=docs/studies/$name.md
mkdir -p "$out"
"$transect" bench report "$results" --html "$out/report.html"
for table in runs comparisons; do
    "$transect" bench report "$results" --csv $table >"$out/$table.csv"
done
[[ -e $page ]] || printf '# %s\n\n<!-- results -->\n<!-- end of results -->\n' "$name" >"$page"
# Between the two marks stands what the program printed, and nothing else.
table=$(mktemp)
trap 'rm -f "$table"' EXIT
{ echo '```'; COLUMNS=150 "$transect" bench report "$results"; echo '```'; } >"$table"
sed -i -e '/<!-- results -->/,/<!-- end of results -->/{/<!-- results -->/{p;r '"$table"'
};/<!-- end of results -->/p;d}' "$page"
echo "study: $page, $out"
