import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { git } from './git.ts';
import { PROJECT_ROOT } from './project-root.ts';

/** A push of the demo, and what must come of it. */
export interface PlannedPush {
  refspecs: readonly string[];
  expect: readonly ExpectedEffect[];
}

export interface ExpectedEffect {
  name: string;
  /** Local name of the commit that it runs on. */
  at: string;
  outcome: 'pass' | 'fail';
  /** What its log must hold. */
  says: string;
}

export interface DemoRepo {
  repo: string;
  folder: string;
  pushes: readonly PlannedPush[];
}

/** This project's own history, or a commit that resembles it where there is no history to clone. */
export async function ownHistory(folder: string): Promise<DemoRepo> {
  mkdirSync(folder, { recursive: true });
  if (!(await cloneProject(folder))) {
    await initialise(folder);
    await commit(folder, 'demo', { 'package.json': '{ "name": "sluice" }\n' }, 'Files without history');
  }
  await define(
    folder,
    'count',
    `on: [refs/heads/*]\nrun: |\n  test -f package.json\n  echo "files: $(find . -type f | wc -l)"\n`,
  );
  return {
    repo: 'demo/sluice',
    folder,
    pushes: [
      { refspecs: ['refs/meta/effects/count'], expect: [] },
      {
        refspecs: ['refs/heads/demo:refs/heads/main'],
        expect: [{ name: 'count', at: 'refs/heads/demo', outcome: 'pass', says: 'files: ' }],
      },
    ],
  };
}

/** Two branches and a tag: an effect that passes, one that fails, and one that only a tag triggers. */
export async function smallSite(folder: string): Promise<DemoRepo> {
  await initialise(folder);
  await commit(
    folder,
    'main',
    { 'index.html': '<h1>Hello</h1>\n', 'notes.txt': 'FIXME: title\n' },
    'First page',
  );
  await commit(
    folder,
    'title',
    { 'index.html': '<h1>Hello, demo</h1>\n', 'notes.txt': 'done\n' },
    'Better title',
  );
  await git(folder, ['tag', 'v1', 'refs/heads/title']);
  await define(
    folder,
    'build',
    `on: [refs/heads/*]\nrun: |\n  echo "building $SLUICE_REF of $SLUICE_REPO"\n  grep -q '<h1>' index.html\n`,
  );
  await define(
    folder,
    'lint',
    `on: [refs/heads/main]\nrun: |\n  if grep -n FIXME notes.txt; then exit 1; fi\n`,
  );
  await define(folder, 'release', `on: ['refs/tags/v*']\nargv: [sh, -c, 'echo "releasing $SLUICE_REF"']\n`);
  return {
    repo: 'demo/site',
    folder,
    pushes: [
      { refspecs: ['refs/meta/effects/*:refs/meta/effects/*'], expect: [] },
      {
        refspecs: ['refs/heads/main', 'refs/heads/title'],
        expect: [
          {
            name: 'build',
            at: 'refs/heads/main',
            outcome: 'pass',
            says: 'building refs/heads/main of demo/site',
          },
          {
            name: 'build',
            at: 'refs/heads/title',
            outcome: 'pass',
            says: 'building refs/heads/title of demo/site',
          },
          { name: 'lint', at: 'refs/heads/main', outcome: 'fail', says: 'FIXME: title' },
        ],
      },
      {
        refspecs: ['refs/tags/v1'],
        expect: [{ name: 'release', at: 'refs/tags/v1', outcome: 'pass', says: 'releasing refs/tags/v1' }],
      },
    ],
  };
}

/** False where there is no whole history: an unpacked archive has none, and a shallow clone cannot be pushed. */
async function cloneProject(folder: string): Promise<boolean> {
  try {
    const { stdout } = await git(PROJECT_ROOT, ['rev-parse', '--is-shallow-repository', '--show-prefix']);
    // With a prefix, the checkout found is one around this folder.
    if (stdout !== 'false') return false;
    await git(folder, ['clone', '--quiet', '--no-hardlinks', '--no-checkout', PROJECT_ROOT, '.']);
    await git(folder, ['update-ref', 'refs/heads/demo', 'HEAD']);
    return true;
  } catch {
    return false;
  }
}

async function initialise(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await git(folder, ['init', '--quiet', '--initial-branch=main']);
}

async function commit(
  folder: string,
  branch: string,
  files: Record<string, string>,
  message: string,
): Promise<void> {
  const isBorn = (await git(folder, ['for-each-ref', 'refs/heads'])).stdout !== '';
  await git(
    folder,
    isBorn ? ['checkout', '--quiet', '-b', branch] : ['symbolic-ref', 'HEAD', `refs/heads/${branch}`],
  );
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  await git(folder, ['add', '--all']);
  await git(folder, ['commit', '--quiet', `--message=${message}`]);
}

async function define(folder: string, name: string, effectYaml: string): Promise<void> {
  const blob = await git(folder, ['hash-object', '-w', '--stdin'], effectYaml);
  const tree = await git(folder, ['mktree'], `100644 blob ${blob.stdout}\teffect.yaml\n`);
  const definition = await git(folder, ['commit-tree', tree.stdout, '-m', `Define ${name}`]);
  await git(folder, ['update-ref', `refs/meta/effects/${name}`, definition.stdout]);
}
