#!/usr/bin/env bash
# Installs pgbouncer, which the tests of the pooler need, where Debian's or Ubuntu's packages are.
set -euo pipefail
if PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null; then
  exit 0
fi
command -v apt-get >/dev/null || {
  echo 'pgbouncer: install it by hand, there is no apt-get here' >&2
  exit 1
}
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
export DEBIAN_FRONTEND=noninteractive
as_root apt-get update -q
as_root apt-get install -q -y --no-install-recommends pgbouncer
