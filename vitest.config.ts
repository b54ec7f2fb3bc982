import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

// A process for each test file loads the same libraries: they are compiled once.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/vitest');

export default defineConfig({
  test: {
    include: ['{migrations,packages/*,apps/*,scripts}/**/*.test.ts'],
    globalSetup: ['packages/testkit/src/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
