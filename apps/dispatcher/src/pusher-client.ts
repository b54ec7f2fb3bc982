import { GitError } from '@sluice/executors';

/** How this dispatcher reaches the pusher. */
export interface PusherClient {
  repoUrl(repoId: string): string;
  /** Where the result of exactly this claim may be pushed. */
  claimUrl(repoId: string, claimNumber: bigint): string;
  /** For git's environment: the token must not be on a command line, where every process can read it. */
  readonly env: Readonly<Record<string, string>>;
}

export function createPusherClient(pusherUrl: string, token: string | undefined): PusherClient {
  const config: [string, string][] = [
    // A redirect would send the token, or the result, somewhere else.
    ['http.followRedirects', 'false'],
    ['http.lowSpeedLimit', '1'],
    ['http.lowSpeedTime', '60'],
    ['protocol.version', '2'],
  ];
  if (token !== undefined) {
    config.push([
      `http.${pusherUrl}/.extraHeader`,
      `Authorization: Basic ${Buffer.from(`dispatcher:${token}`).toString('base64')}`,
    ]);
  }
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(config.length) };
  for (const [index, [name, value]] of config.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = name;
    env[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return {
    env,
    repoUrl: (repoId) => `${pusherUrl}/${repoId}.git`,
    claimUrl: (repoId, claimNumber) => `${pusherUrl}/_claim/${claimNumber}/${repoId}.git`,
  };
}

/** Whether the same git command may succeed later: the pusher is away, restarting, or overloaded. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof GitError)) return false;
  if (error.isTimeout) return true;
  // Trying the same again does not help there.
  if (hasMoved(error)) return false;
  const status = /returned error: (\d{3})/.exec(error.stderr)?.[1];
  if (status !== undefined) return ['408', '425', '429'].includes(status) || status.startsWith('5');
  return TRANSIENT.test(error.stderr) || INVITED.test(error.output);
}

/** Whether a push was refused because the ref is not what it expected. */
export function hasMoved(error: GitError): boolean {
  return /\bstale\b|\(fetch first\)|non-fast-forward|already exists|failed to update ref|cannot lock ref/i.test(
    error.output,
  );
}

/** The pusher's reasons for a ref that it would take later end like this. */
const INVITED = /(try|push) again/i;

const TRANSIENT = new RegExp(
  [
    'could not resolve host',
    'failed to connect',
    "couldn't connect",
    'connection (refused|reset|timed out|was reset)',
    '(recv|send) failure',
    'empty reply',
    'unexpected disconnect',
    'hung up unexpectedly',
    'early eof',
    'transfer closed',
    'operation (too slow|timed out)',
    'tls connection',
  ].join('|'),
  'i',
);
