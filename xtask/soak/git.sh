#!/bin/sh
# A history is written, branched, merged, packed, cloned and checked; the object names it prints are compared.
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME="$PWD"
tick=1700000000
commit() {
  tick=$((tick + 60))
  GIT_AUTHOR_DATE="$tick +0000" GIT_COMMITTER_DATE="$tick +0000" git commit -q -m "$1"
}
git init -q -b main repo
cd repo
for round in 1 2 3 4 5 6 7 8 9 10; do
  mkdir -p "d$round"
  for file in 1 2 3 4 5 6 7 8; do
    seq "$((round * file))" "$((round * file * 40 + 500))" >"d$round/f$file"
  done
  seq 1 "$((round * 300))" | sed "s/7/round $round/" >shared
  git add -A
  commit "round $round"
done
git checkout -q -b side HEAD~5
sed -i 's/^1$/one/' d1/f1
seq 1 20000 >large
git add -A
commit side
git checkout -q main
GIT_AUTHOR_DATE="$tick +0000" GIT_COMMITTER_DATE="$tick +0000" git merge -q -m merge side
git rev-parse HEAD "HEAD^{tree}"
git log --stat --format=%H | cksum
git log -p --all -C -M | cksum
git blame shared | cksum
git grep -c 'round [13579]' | cksum
git repack -a -d -f -q --depth=30 --window=60
git -c pack.threads=4 gc -q --aggressive --prune=now
git fsck --strict --full --no-progress
git clone -q --no-local . ../copy
git -C ../copy fsck --strict --full --no-progress
git -C ../copy rev-parse HEAD
git bundle create -q ../all.bundle --all
git bundle verify -q ../all.bundle
git archive HEAD | cksum
git rev-list --objects --all | sort | cksum
