import { mkdirSync } from 'node:fs';
import { runGit } from './run-git.ts';

const FILES = 50;
const LINES = 40;

/** A local repository to push from: a line of commits, each of which changes one file of fifty. */
export interface PushSource {
  readonly folder: string;
  /** Oldest first. */
  readonly commits: readonly string[];
  /** The commit of an effect definition that every push of a branch matches. */
  readonly definition: string;
}

/** Makes a bare repository with so many commits in a pack. */
export async function makePushSource(folder: string, commits: number): Promise<PushSource> {
  mkdirSync(folder, { recursive: true });
  await runGit(folder, ['init', '--quiet', '--bare', '--initial-branch=main', '.']);
  await runGit(folder, ['fast-import', '--quiet'], history(commits));
  const list = await runGit(folder, ['rev-list', '--reverse', 'refs/heads/main']);
  const definition = await runGit(folder, ['rev-parse', DEFINITION_REF]);
  return { folder, commits: list.split('\n'), definition };
}

/** Where the repository that is pushed to keeps the definition. */
export const DEFINITION_REF = 'refs/meta/effects/ci';

function history(commits: number): string {
  const parts: string[] = [];
  for (let number = 0; number < commits; number += 1) {
    parts.push(commitOf('refs/heads/main', `Change ${number}`));
    const changed = number === 0 ? Array.from({ length: FILES }, (_, file) => file) : [number % FILES];
    for (const file of changed)
      parts.push(fileOf(`src/part-${file % 7}/file-${file}.txt`, text(file, number)));
  }
  parts.push(commitOf(DEFINITION_REF, 'Define ci'));
  parts.push(fileOf('effect.yaml', 'on: [refs/heads/*]\nrun: make test\n'));
  return parts.join('');
}

function commitOf(ref: string, message: string): string {
  return `commit ${ref}\ncommitter Ada <ada@example.com> 1700000000 +0000\n${data(message)}`;
}

function fileOf(path: string, content: string): string {
  return `M 100644 inline ${path}\n${data(content)}`;
}

function data(content: string): string {
  return `data ${Buffer.byteLength(content)}\n${content}\n`;
}

/** Text of which a change touches one line, so that packs hold deltas as they do in life. */
function text(file: number, version: number): string {
  const lines = Array.from(
    { length: LINES },
    (_, line) => `file ${file}, line ${line}: ${'word '.repeat(8)}`,
  );
  lines[version % LINES] = `file ${file}, changed in ${version}`;
  return lines.join('\n');
}
