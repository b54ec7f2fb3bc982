import { execFile } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { useEmptyDatabase, useTempFolder } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';

const PACKAGE = join(import.meta.dirname, '..');
const ROOT = join(PACKAGE, '../..');
/** The Node that the installed package runs on; another than ours shows that `engines` is true. */
const NODE = process.env['TEST_NODE'] ?? process.execPath;

/** A compiler twice, npm, and two programs. */
const BOUND_MS = 240_000;

const database = useEmptyDatabase();
const folder = useTempFolder();

async function run(file: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: folder.path, env: { ...process.env, ...env }, timeout: BOUND_MS };
  const { stdout } = await promisify(execFile)(file, args, options).catch(
    (error: Error & { stdout: string }) => {
      throw new Error(`${error.message}\n${error.stdout}`);
    },
  );
  return stdout;
}

/**
 * Packs, and installs by unpacking, as npm does, beside peers that are here already, so that no network is needed.
 * Returns the names of the files in the tarball.
 */
async function install(): Promise<string[]> {
  await run(process.execPath, [join(ROOT, 'scripts/pack.ts'), folder.path]);
  const [tarball = ''] = globSync('*.tgz', { cwd: folder.path });
  const modules = join(folder.path, 'node_modules');
  for (const name of ['sluice-queue', '@types']) mkdirSync(join(modules, name), { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', join(modules, 'sluice-queue'), '--strip-components=1']);
  for (const name of ['kysely', 'pg', '@types/pg', 'zod', 'valibot'])
    symlinkSync(join(PACKAGE, 'node_modules', name), join(modules, name));
  symlinkSync(join(ROOT, 'node_modules/@types/node'), join(modules, '@types/node'));
  const listed = await run('tar', ['-tzf', tarball]);
  return listed
    .trim()
    .split('\n')
    .map((name) => name.replace('package/', ''));
}

const README = [...readFileSync(join(PACKAGE, 'README.md'), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map(
  ([, block]) => block!,
);

/** Before the page's end: the `run` that it only shows, and what cannot be seen from outside. */
const MORE = `
import * as everything from 'sluice-queue';
await dispatcher.idle();
await dispatcher.stop();
const again = createDatabase({ connectionString, applicationName: 'again' });
await enqueueEffect(again, { repoId: 'ada', name: 'again', payload: '' });
const other = await startDispatcher({ db: again, slots: 1, repoCap: 1, run: purchaseAgain });
await other.idle();
await other.stop();
await again.destroy();
const hidden = 'sluice-queue/dist/db/index.js';
console.log(await import(hidden).catch((error: { code: string }) => error.code));
console.log(JSON.stringify(Object.keys(everything)));
`;

const RUN_EXAMPLE = `
import { runShop } from './own-tables.js';
await runShop(process.env.DATABASE_URL ?? '', (line) => console.log(line));
`;

test(
  'the tarball holds what belongs; the README and the example compile against it and run, by a role without rights',
  { timeout: BOUND_MS },
  async () => {
    const files = await install();
    const compiled = files.filter((name) => /^dist\/[\w/.-]+(?<!\.test)\.(js|d\.ts)$/.test(name));
    expect(files.filter((name) => !compiled.includes(name)).toSorted()).toEqual([
      'LICENSE',
      'README.md',
      'package.json',
    ]);
    const installed = join(folder.path, 'node_modules/sluice-queue');
    const ofOurs = compiled.filter((name) =>
      readFileSync(join(installed, name), 'utf8').includes('@sluice/'),
    );
    expect(ofOurs).toEqual([]);

    writeFileSync(join(folder.path, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(folder.path, 'shop.ts'), [...README.slice(0, -1), MORE, README.at(-1)].join('\n'));
    cpSync(join(PACKAGE, 'examples/own-tables.ts'), join(folder.path, 'own-tables.ts'));
    writeFileSync(join(folder.path, 'own-tables-run.ts'), RUN_EXAMPLE);
    writeFileSync(join(folder.path, 'tsconfig.json'), TSCONFIG);
    await run(join(ROOT, 'node_modules/.bin/tsc'), []);

    const role = `${new URL(database.url).pathname.slice(1)}_shop`;
    const url = new URL(database.url);
    url.searchParams.set('options', `-c role=${role}`);
    await sql`create role ${sql.id(role)}`.execute(database.db);
    try {
      await sql`grant create on database ${sql.id(url.pathname.slice(1))} to ${sql.id(role)}`.execute(
        database.db,
      );
      await sql`grant create on schema public to ${sql.id(role)}`.execute(database.db);
      const env = { DATABASE_URL: url.href, SLUICE_SCHEMA: 'shop_queue' };
      const said = (await run(NODE, ['out/shop.js'], env)).trim().split('\n');
      expect(said.toSorted()).toEqual([
        'ERR_PACKAGE_PATH_NOT_EXPORTED',
        JSON.stringify(OFFERED),
        'invoice done',
        'invoice for ada: 1250',
        'reminder waits: scheduled',
      ]);
      const thanks = await run(NODE, ['out/own-tables-run.js'], env);
      expect(thanks).toContain('Thank you, grace, for 3.00');
      const { rows } = await sql<{ customer: string }>`
      select customer from public.purchase
      union all select customer from public.shop_order order by customer`.execute(database.db);
      expect(rows.map(({ customer }) => customer)).toEqual(['ada', 'ada', 'ada', 'grace']);
    } finally {
      await sql`drop owned by ${sql.id(role)} cascade`.execute(database.db);
      await sql`drop role ${sql.id(role)}`.execute(database.db);
    }
  },
);

/** A strict program that checks the types of its libraries as well. */
const TSCONFIG = JSON.stringify({
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    target: 'es2023',
    module: 'nodenext',
    rootDir: '.',
    outDir: 'out',
  },
  include: ['*.ts'],
});

/** All that the package offers, types aside. */
const OFFERED = [
  'SluiceError',
  'assertUsable',
  'cancelEffects',
  'completeEffect',
  'createDatabase',
  'effectId',
  'enqueueEffect',
  'enqueueEffects',
  'findEffect',
  'finishedEffects',
  'migrate',
  'migrationSql',
  'openClaim',
  'queueByRepo',
  'queueTotals',
  'readLog',
  'rerunEffect',
  'runningEffects',
  'sluice',
  'startDispatcher',
  'typedPayload',
  'waitingEffects',
];
