import { SettingsError } from '@sluice/service-kit';

const ANSWER_MS_MAX = 5_000;

/**
 * Refuses a token that the pusher refuses: every effect would use up its attempts within seconds. Returns why the
 * pusher could not be asked; that is no reason not to start, since effects wait until it answers.
 */
export async function checkPusher(pusherUrl: string, token: string | undefined): Promise<Error | undefined> {
  const headers: Record<string, string> =
    token === undefined
      ? {}
      : { authorization: `Basic ${Buffer.from(`dispatcher:${token}`).toString('base64')}` };
  let status: number;
  try {
    const response = await fetch(`${pusherUrl}/_metrics`, {
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    await response.body?.cancel();
    ({ status } = response);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return error.cause instanceof Error ? error.cause : error;
  }
  if (status !== 401 && status !== 403) return undefined;
  const got =
    token === undefined ? 'none' : status === 401 ? 'one that it refuses' : 'one that is not enough';
  const message = `expected the token of the pusher at ${pusherUrl}, got ${got}; start both with the same SLUICE_TOKEN, or use an access token with read and worker for all repositories`;
  throw new SettingsError([{ name: 'SLUICE_TOKEN', message }]);
}
