import { createLogger, onShutdown, SettingsError } from '@sluice/service-kit';
import { SluiceError } from '@sluice/db';
import { readPusherSettings, type Settings } from './settings.ts';
import { startPusher } from './start-pusher.ts';

try {
  await main(readPusherSettings(process.env));
} catch (error) {
  if (!(error instanceof SettingsError || error instanceof SluiceError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}

async function main(settings: Settings): Promise<void> {
  const log = createLogger({ service: 'pusher', level: settings.logLevel });
  const pusher = await startPusher(settings, log);
  onShutdown({ log, stop: pusher.stop, graceMs: settings.graceMs });
}
