#!/usr/bin/env bash
# Compiles requirements/*.in into files pinned with hashes that any index serving the same releases can satisfy.
# Keeps the pins that still satisfy the inputs; `tools/requirements.sh --upgrade` moves them all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for name in bootstrap layer dev; do
  .venv/bin/uv pip compile --no-config --quiet --universal --python-version 3.11 --only-binary :all: \
    --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make requirements" "$@" \
    "requirements/$name.in" --output-file "requirements/$name.txt"
done
