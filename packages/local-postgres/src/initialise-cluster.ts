import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { PostgresMajor } from './find-binaries.ts';
import { giveTo, type Unprivileged } from './unprivileged.ts';

export interface Cluster {
  pgData: string;
  password: string;
}

export interface InitialiseOptions {
  folder: string;
  version: PostgresMajor;
  initdb: string;
  env: NodeJS.ProcessEnv;
  runAs: Unprivileged;
}

/** Makes the data directory and the password on first use, and returns them ever after. */
export async function initialiseCluster(options: InitialiseOptions): Promise<Cluster> {
  const { folder, version, runAs } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const pgData = join(folder, 'data');
  const passwordFile = join(folder, 'password');
  if (existsSync(pgData)) {
    const found = readFileSync(join(pgData, 'PG_VERSION'), 'utf8').trim();
    if (found !== String(version)) {
      throw new Error(
        `PostgreSQL: expected ${pgData} to hold version ${version}, got ${found}. ` +
          `Move the folder away, or start the version that made it.`,
      );
    }
  } else {
    // Renamed when complete, so that a first start that is cut off leaves nothing half made.
    const unfinished = join(folder, 'data.new');
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { mode: 0o700 });
    giveTo(unfinished, runAs.uid);
    rmSync(passwordFile, { force: true });
    writeFileSync(passwordFile, randomBytes(24).toString('base64url'), { mode: 0o600 });
    await runInitdb(options, unfinished, passwordFile);
    renameSync(unfinished, pgData);
  }
  return { pgData, password: readFileSync(passwordFile, 'utf8') };
}

async function runInitdb(options: InitialiseOptions, pgData: string, passwordFile: string): Promise<void> {
  const [program, ...args] = [
    ...options.runAs.prefix,
    options.initdb,
    `--pgdata=${pgData}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--no-instructions',
    '--no-sync',
  ];
  try {
    await promisify(execFile)(program!, args, { env: options.env, timeout: 120_000 });
  } catch (cause) {
    const { stderr } = cause as { stderr?: string };
    throw new Error(`PostgreSQL: initdb failed in ${pgData}: ${stderr?.trim() ?? String(cause)}`, { cause });
  }
}
