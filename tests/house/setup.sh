#!/usr/bin/env bash
# Installs what is missing, and nothing that is there: Debian packages and the Python environment of the tests. Called by
# `make setup`, hence by `make demo` and `make test`. `setup.sh tools` only makes the Python environment, without root.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages() {
    missing=() run=()
    ((EUID == 0)) || run=(sudo)
    while read -r package; do
        [[ -z $package || $package == \#* ]] && continue
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done < testbed/packages.txt

    if ((${#missing[@]})); then
        echo "setup: installing ${missing[*]}"
        # A server that fails once does not fail the setup.
        retries=(-o Acquire::Retries=5)
        "${run[@]}" apt-get "${retries[@]}" update -q >/dev/null
        # Servers that the benchmark starts for itself must not start because they were installed.
        policy=/usr/sbin/policy-rc.d
        if [[ ! -e $policy ]]; then
            printf '#!/bin/sh\nexit 101\n' | "${run[@]}" tee "$policy" >/dev/null
            "${run[@]}" chmod 755 "$policy"
            trap '"${run[@]}" rm -f "$policy"' EXIT
        fi
        DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get "${retries[@]}" install -yq --no-install-recommends "${missing[@]}" >/dev/null
    fi

    # The benchmark's machines see this one's root, read only, and have modules of their own kernels over this folder.
    [[ -d /lib/modules ]] || "${run[@]}" mkdir /lib/modules
}

[[ ${1:-} == tools ]] || packages

venv=$TRANSECT_CACHE/venv
if [[ -f tests/requirements.txt ]] && ! cmp -s tests/requirements.txt "$venv/requirements.txt"; then
    echo "setup: Python environment in $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 8 -r tests/requirements.txt
    cp tests/requirements.txt "$venv/requirements.txt"
fi
