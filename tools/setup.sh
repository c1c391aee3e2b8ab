#!/usr/bin/env bash
# Makes .venv and node_modules in this checkout, and nothing outside it but the installers'
# own caches. Does nothing while the files that it installs from are unchanged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=$root/.venv
log=$root/.local/setup.log
# .venv takes 1.0 GB, node_modules 0.1 GB, and the wheels in the cache as much again.
disk_needed_mb=2500

fail() {
  printf 'setup: %s\n' "$1" >&2
  exit 1
}

find_python() {
  # The one in .venv, which make puts first, is made from the one that is looked for.
  local candidate PATH=${PATH//"$venv/bin:"/}
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed (name it: make setup PYTHON=/path/to/python3.11)"
}

# Runs one step; a failure becomes one line that names the likeliest cause and the log.
run() {
  local step=$1 known='no space left on device|permission denied|no matching distribution[^)]*'
  known+='|hash mismatch[^)]*|no wheels with a matching[^,]*|name resolution|connection refused'
  shift
  printf '  %s\n' "$step"
  "$@" >>"$log" 2>&1 && return
  cause=$(grep -oiE "$known" "$log" | tail -n 1) ||
    cause=$(grep -iE '^ *(npm )?(error|err!)' "$log" | head -n 1) ||
    cause=$(tail -n 1 "$log")
  fail "$step: $(printf '%s' "$cause" | cut -c 1-160) (whole output: $log)"
}

origin() {
  "$1" -c 'import sys; print(sys.base_prefix, sys.version)' 2>/dev/null
}

fingerprint() {
  {
    printf '%s\n' "$root" "$(origin "$python")"
    cat requirements/bootstrap.txt requirements/dev.txt pyproject.toml tools/setup.sh
    for file in package.json package-lock.json; do
      [ ! -f "$file" ] || cat "$file"
    done
  } | "$python" -c 'import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

is_current() {
  [ -x "$venv/bin/python" ] && [ "$(cat "$venv/setup-fingerprint" 2>/dev/null)" = "$wanted" ]
}

install_node_tools() {
  if [ -f package-lock.json ]; then
    npm ci --no-audit --no-fund
  else
    npm install --no-package-lock --no-audit --no-fund
  fi
}

python=$(find_python)
wanted=$(fingerprint)
is_current && exit 0

mkdir -p .local 2>/dev/null || fail "cannot write to $root"
if command -v flock >/dev/null; then
  exec 9>.local/setup.lock
  flock 9
  ! is_current || exit 0
fi
: >"$log" || fail "cannot write to $log"
free_mb=$(df -Pm . | awk 'NR == 2 {print $4}')
[ -x "$venv/bin/uv" ] || [ "$free_mb" -ge "$disk_needed_mb" ] ||
  fail "$disk_needed_mb MB of disk are needed in $root, $free_mb MB are free"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  fail "$python has no venv module (on Debian and Ubuntu: apt-get install python3-venv)"
cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}
if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
  # A user without a home still has the checkout.
  export XDG_CACHE_HOME=$root/.local/cache npm_config_cache=$root/.local/cache/npm
fi

printf 'setup: everything goes into %s\n' "$venv"
rm -f "$venv/setup-fingerprint"
if [ "$(origin "$venv/bin/python")" != "$(origin "$python")" ]; then
  run "make the virtual environment" "$python" -m venv --clear "$venv"
fi
export PATH=$venv/bin:$PATH VIRTUAL_ENV=$venv
run "install the installer" python -m pip install --quiet --no-deps --require-hashes \
  --requirement requirements/bootstrap.txt
run "install the pinned packages" uv pip install --require-hashes --only-binary :all: \
  --requirement requirements/dev.txt
run "install effect-broker itself, editable" uv pip install --no-deps \
  --no-build-isolation --editable .
if [ -f package.json ]; then
  run "install the CDK command" install_node_tools
fi
printf '%s\n' "$wanted" >"$venv/setup-fingerprint"
printf 'setup: done\n'
