#!/usr/bin/env bash
# A study of the benchmark: carries plans/study-NAME.toml out, or the program's own plans/NAME.toml, or goes on with it, and
# makes docs/reference/studies/NAME.md's results from what it gave. `make study NAME=...` has installed and built everything before.
#   study.sh NAME [FOLDER]     results go to FOLDER, or to the cache
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:?which study? one of $(cd plans && echo study-*.toml)}
plan=plans/study-$name.toml
[[ -e $plan ]] || plan=plans/$name.toml
results=${2:-$TRANSECT_CACHE/studies/$name}
transect=$(realpath "${CARGO_TARGET_DIR:-target}")/release/transect
[[ -e $plan ]] || { echo "study: there is neither plans/study-$name.toml nor $plan" >&2; exit 2; }

if [[ -e $results/plan.toml ]]; then
    # What is finished is not done again; results of another plan are not this study's.
    cmp -s "$plan" "$results/plan.toml" ||
        { echo "study: $results is of another plan than $plan: remove it, or name another folder" >&2; exit 2; }
    "$transect" bench resume "$results"
else
    mkdir -p "$(dirname "$results")"
    "$transect" bench run "$plan" -o "$results"
fi

out=docs/reference/studies/$name page=docs/reference/studies/$name.md
mkdir -p "$out"
"$transect" bench report "$results" --rejudge --html "$out/report.html"
for table in runs comparisons metrics; do
    "$transect" bench report "$results" --rejudge --csv $table >"$out/$table.csv"
done
[[ -e $page ]] || printf '# %s\n\n<!-- results -->\n<!-- end of results -->\n' "$name" >"$page"
# Between the marks `results` (with words for the report: `results --against tcg`) and `end of results` stands what the
# program printed, and nothing else; between `published` and `end of published` these results beside the papers', and before
# them those of other studies (`published OTHER`): of two that measured the same the first speaks.
new=$(mktemp)
trap 'rm -f "$new"' EXIT
while IFS= read -r line; do
    case $line in
    '<!-- results'*)
        read -ra words <<<"${line//[<>]/}"
        printf '%s\n```\n' "$line"
        COLUMNS=150 "$transect" bench report "$results" --rejudge "${words[@]:2:${#words[@]}-3}"
        printf '```\n'
        while IFS= read -r line && [[ $line != '<!-- end of results -->' ]]; do :; done
        ;;
    '<!-- published'*)
        read -ra words <<<"${line//[<>]/}"
        others=("${words[@]:2:${#words[@]}-3}")
        printf '%s\n```\n' "$line"
        COLUMNS=150 "$transect" bench publish "${others[@]/#/${results%/*}/}" "$results"
        printf '```\n'
        while IFS= read -r line && [[ $line != '<!-- end of published -->' ]]; do :; done
        ;;
    esac
    printf '%s\n' "$line"
done <"$page" >"$new"
cat "$new" >"$page"
echo "study: $page, $out"
