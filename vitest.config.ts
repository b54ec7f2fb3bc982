import { defineConfig } from 'vitest/config';

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
