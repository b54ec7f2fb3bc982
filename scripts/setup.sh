#!/bin/sh
# Makes a fresh clone ready with nothing but Node >= 20, npm and git: installs the locked dependencies once per lock file.
set -eu
cd "$(dirname "$0")/.."
stamp=node_modules/.setup-stamp
wanted="$(cksum pnpm-lock.yaml package.json pnpm-workspace.yaml 2>/dev/null || true)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
major="$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)"
if [ "$major" -lt 20 ]; then
  echo "sluice needs Node 20 or newer to set itself up, found $(node --version 2>/dev/null || echo none). Install it from https://nodejs.org and run this again." >&2
  exit 1
fi
# A folder without a stamp may come from an install that was interrupted; pnpm takes it for complete and would never
# run the packages' own install scripts again, without which neither PostgreSQL nor Node starts.
doubtful=""
if [ -d node_modules/.pnpm ] && [ ! -f "$stamp" ]; then doubtful=yes; fi
rm -f "$stamp"
echo "Installing the locked dependencies (once; about a minute)..."
# pnpm would ask before it replaces a folder, and without a terminal it would stop instead.
CI=true npx --yes pnpm@12.4.2 install --frozen-lockfile
if [ -n "$doubtful" ]; then CI=true npx --yes pnpm@12.4.2 rebuild; fi
printf '%s\n' "$wanted" > "$stamp"
