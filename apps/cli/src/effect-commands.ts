import { resolve } from 'node:path';
import {
  DEFINITION_FILE,
  DEFINITION_PREFIX,
  isEffectName,
  parseDefinition,
  type ParsedDefinition,
} from '@sluice/effect-spec';
import { buildFileCommit } from './build-file-commit.ts';
import { CommandError } from './command-error.ts';
import { createGit, type Git } from './git.ts';
import { pushRef, type RefPush } from './push-ref.ts';
import { readSmallFile } from './read-small-file.ts';
import { listDefinitions, readDefinitions, type RemoteDefinition } from './remote-definitions.ts';
import { onRemote } from './remote-option.ts';
import { table, writeStored, type Terminal } from './terminal.ts';
import { shownRemote } from './without-credentials.ts';

/** `sluice effect add`: checks the file, builds its commit without touching the work tree, pushes it. */
export async function addEffect(
  terminal: Terminal,
  name: string,
  file: string,
  remote: string,
): Promise<void> {
  assertEffectName(name);
  const text = await readSmallFile(resolve(terminal.cwd, file), file, 'the definition, such as effect.yaml');
  assertWellFormed(parseDefinition(text), file);
  const git = createGit(terminal.cwd, terminal.env);
  const [current] = await listDefinitions(git, remote, { name, mayBeNew: true });
  const [stored] = current === undefined ? [] : await readDefinitions(git, remote, [current]);
  if (stored?.equals(text) === true) {
    terminal.stdout.write(
      `${name} on ${shownRemote(remote)} is already this definition; nothing was pushed\n`,
    );
    return;
  }
  const commit = await buildFileCommit(git, terminal.env, {
    file: DEFINITION_FILE,
    text,
    message: `${current === undefined ? 'Add' : 'Change'} effect ${name}`,
    parent: current?.oid,
  });
  await pushRef(
    git,
    { ...refOf(name, remote), remote, from: current?.oid ?? null, to: commit },
    terminal.stdout,
  );
  terminal.stdout.write(
    `${current === undefined ? 'added' : 'changed'} ${name} on ${shownRemote(remote)} (${commit.slice(0, 12)})\n`,
  );
}

/** `sluice effect list`: every definition of the remote with what triggers it and what it runs. */
export async function listEffects(terminal: Terminal, remote: string): Promise<void> {
  const git = createGit(terminal.cwd, terminal.env);
  const definitions = await listDefinitions(git, remote);
  if (definitions.length === 0) {
    terminal.stdout.write(
      `no effects on ${shownRemote(remote)}; add one with ${onRemote('sluice effect add <name> <file>', remote)}\n`,
    );
    return;
  }
  const texts = await readDefinitions(git, remote, definitions);
  const rows = definitions.map(({ name, oid }, index) => [name, oid.slice(0, 12), ...summary(texts[index])]);
  terminal.stdout.write(table(['NAME', 'COMMIT', 'ON', 'RUNS'], rows));
}

/** `sluice effect show`: the text of one definition, exactly as stored unless a terminal would obey it. */
export async function showEffect(terminal: Terminal, name: string, remote: string): Promise<void> {
  const git = createGit(terminal.cwd, terminal.env);
  const definition = await findDefinition(git, remote, name);
  const [text] = await readDefinitions(git, remote, [definition]);
  if (text === undefined) {
    throw new CommandError(
      `${name} on ${shownRemote(remote)} holds no ${DEFINITION_FILE}`,
      `Replace it with ${onRemote(`sluice effect add ${name} <file>`, remote)}.`,
    );
  }
  writeStored(terminal.stdout, text);
}

/** `sluice effect remove`: deletes the definition's ref, if it is still what the remote showed. */
export async function removeEffect(terminal: Terminal, name: string, remote: string): Promise<void> {
  const git = createGit(terminal.cwd, terminal.env);
  const { oid } = await findDefinition(git, remote, name);
  await pushRef(git, { ...refOf(name, remote), remote, from: oid, to: null }, terminal.stdout);
  terminal.stdout.write(`removed ${name} from ${shownRemote(remote)} (it was ${oid.slice(0, 12)})\n`);
}

function refOf(name: string, remote: string): Pick<RefPush, 'ref' | 'what' | 'look'> {
  return {
    ref: `${DEFINITION_PREFIX}${name}`,
    what: name,
    look: onRemote(`sluice effect show ${name}`, remote),
  };
}

async function findDefinition(git: Git, remote: string, name: string): Promise<RemoteDefinition> {
  assertEffectName(name);
  const [found] = await listDefinitions(git, remote, { name });
  if (found !== undefined) return found;
  throw new CommandError(
    `the remote ${shownRemote(remote)} has no effect called ${name}`,
    `${onRemote('sluice effect list', remote)} shows the ones it has.`,
  );
}

function assertEffectName(name: string): void {
  if (isEffectName(name)) return;
  throw new CommandError(
    `expected an effect name of letters, digits, dots, dashes and underscores, got ${JSON.stringify(name.slice(0, 60))}`,
    'Choose a name such as build or deploy-docs.',
  );
}

function assertWellFormed(parsed: ParsedDefinition, file: string): void {
  if (!('problems' in parsed)) return;
  const lines = parsed.problems.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
  throw new CommandError(
    `the definition is malformed; nothing was pushed\n${lines.join('\n')}`,
    'Correct each place and run it again.',
  );
}

function summary(text: Buffer | undefined): [on: string, runs: string] {
  if (text === undefined) return [`malformed: no ${DEFINITION_FILE}`, ''];
  const parsed = parseDefinition(text);
  if ('problems' in parsed) return [`malformed: line ${parsed.problems[0]?.line}`, ''];
  const { on, command } = parsed.definition;
  const runs = 'run' in command ? command.run : command.argv.join(' ');
  const [first = ''] = runs.trim().split('\n');
  return [on.refs.join(' '), first.length <= 60 ? first : `${first.slice(0, 59)}…`];
}
