import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { startThrowawayPostgres, type PostgresMajor } from '@sluice/local-postgres';
import { findContainerEngine } from './container-engine.ts';
import { removeContainerWithUs } from './container-watch.ts';
import { serverVersion, untilItAnswers } from './until-it-answers.ts';

export interface TestServer {
  url: string;
  /** One line: which server, and why this one. */
  choice: string;
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 60_000;
const CONTAINER_WITHIN_MS = 180_000;

/**
 * The PostgreSQL server for a test run: `TEST_DATABASE_URL`, else a container where a container engine answers, else
 * the server that comes with the dependencies. `TEST_PG_VERSION` chooses 15 or 18 for the latter two.
 */
export async function startTestServer(env: NodeJS.ProcessEnv): Promise<TestServer> {
  const given = env['TEST_DATABASE_URL'];
  if (given !== undefined && given !== '') {
    const version = await serverVersion(given);
    return {
      url: given,
      choice: `PostgreSQL ${version} at TEST_DATABASE_URL`,
      stop: () => Promise.resolve(),
    };
  }
  const major = postgresMajor(env['TEST_PG_VERSION']);
  const engine = await findContainerEngine(env);
  if (engine === undefined) return await embedded(major, 'no container engine answers');
  try {
    return await container(major, engine);
  } catch (error) {
    return await embedded(
      major,
      `the container engine at ${engine} could not start one: ${firstLine(error)}`,
    );
  }
}

async function embedded(major: PostgresMajor, why: string): Promise<TestServer> {
  const server = await startThrowawayPostgres({ version: major });
  const version = await serverVersion(server.url);
  return {
    url: server.url,
    choice: `PostgreSQL ${version} of the dependencies (${why})`,
    stop: () => server.stop(),
  };
}

async function container(major: PostgresMajor, engine: string): Promise<TestServer> {
  // It looks for an engine in fewer places than we do, and takes an empty DOCKER_HOST for a given one.
  process.env['DOCKER_HOST'] = engine;
  // Loaded only here: it takes a second that most runs do not need.
  const { GenericContainer } = await import('testcontainers');
  const name = `sluice-test-${randomUUID()}`;
  removeContainerWithUs(engine, name);
  const starting = new GenericContainer(`postgres:${major}-alpine`)
    .withName(name)
    .withEnvironment({ POSTGRES_PASSWORD: 'test' })
    .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=200'])
    .withTmpFs({ '/var/lib/postgresql': 'rw' })
    .withExposedPorts(5432)
    .start();
  const bound = new AbortController();
  const started = await Promise.race([
    starting,
    sleep(CONTAINER_WITHIN_MS, undefined, { signal: bound.signal, ref: false }),
  ]);
  bound.abort();
  if (started === undefined) {
    void starting.then((late) => late.stop()).catch(() => undefined);
    throw new Error(`not started within ${CONTAINER_WITHIN_MS / 1_000} s`);
  }
  const url = `postgres://postgres:test@${started.getHost()}:${started.getMappedPort(5432)}/postgres`;
  const version = await untilItAnswers(url, READY_WITHIN_MS).catch(async (error: unknown) => {
    await started.stop();
    throw error;
  });
  return {
    url,
    choice: `PostgreSQL ${version} in a container (${engine} answers)`,
    stop: async () => {
      await started.stop();
    },
  };
}

function postgresMajor(value: string | undefined): PostgresMajor {
  if (value === undefined || value === '' || value === '18') return 18;
  if (value === '15') return 15;
  throw new Error(`TEST_PG_VERSION: expected 15 or 18, got ${JSON.stringify(value)}. Unset it for 18.`);
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0]!;
}
