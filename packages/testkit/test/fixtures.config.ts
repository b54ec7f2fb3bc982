import { defineConfig } from 'vitest/config';

/** Runs the fixtures of use-test-database.db.test.ts, which the ordinary run leaves alone. */
export default defineConfig({
  test: {
    include: ['packages/testkit/test/*.fixture.ts'],
    globalSetup: ['packages/testkit/src/global-setup.ts'],
    hookTimeout: 120_000,
  },
});
