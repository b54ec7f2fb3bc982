// Builds sluice-queue-<version>.tgz, the queue for programs outside this repository: npm run pack [-- <folder>].
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const PACKAGE = 'packages/sluice-queue';

const into = resolve(process.argv[2] ?? '.');
const folder = mkdtempSync(join(tmpdir(), 'sluice-pack-'));
try {
  const compiled = join(folder, 'compiled');
  const packed = join(folder, 'packed');
  process.stderr.write('Compiling and packing sluice-queue.\n');
  execFileSync(
    join(ROOT, 'node_modules/.bin/tsc'),
    ['--project', join(ROOT, PACKAGE, 'tsconfig.build.json'), '--outDir', compiled],
    { stdio: 'inherit' },
  );
  for (const file of globSync('**/*.{js,d.ts}', { cwd: compiled })) {
    const target = join(packed, place(file));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, withOwnImports(readFileSync(join(compiled, file), 'utf8'), file));
  }
  writeFileSync(join(packed, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
  cpSync(join(ROOT, PACKAGE, 'README.md'), join(packed, 'README.md'));
  cpSync(join(ROOT, 'LICENSE'), join(packed, 'LICENSE'));
  mkdirSync(into, { recursive: true });
  // The name of the tarball goes to standard output; at npm's own level its 250 files would be listed as well.
  execFileSync('npm', ['pack', packed, '--pack-destination', into, '--loglevel=warn'], { stdio: 'inherit' });
} finally {
  rmSync(folder, { recursive: true });
}

/** Where a compiled file goes: our index to the top of dist, a package of the repository into a folder there. */
function place(file: string): string {
  const [, home, path] = /^(.+)\/src\/(.+)$/.exec(file)!;
  return join('dist', home === PACKAGE ? '' : home!.replace('packages/', ''), path!);
}

/** Imports of packages that nobody can install become relative; the compiler leaves `.ts` in the types. */
function withOwnImports(text: string, file: string): string {
  const source = join(ROOT, file.replace(/\.(js|d\.ts)$/, '.ts'));
  return text.replaceAll(
    /(from |import\()'(@sluice\/[^']+|\.[^']+\.ts)'/g,
    (_, before: string, name: string) => {
      const target = name.startsWith('.') ? join(dirname(source), name) : createRequire(source).resolve(name);
      const path = relative(dirname(place(file)), place(relative(ROOT, target))).replace(/\.ts$/, '.js');
      return `${before}'${path.startsWith('.') ? path : `./${path}`}'`;
    },
  );
}

/** The package's own, without what only this repository can use. */
function manifest(): object {
  const {
    private: _,
    devDependencies: __,
    ...kept
  } = JSON.parse(readFileSync(join(ROOT, PACKAGE, 'package.json'), 'utf8')) as Record<string, unknown>;
  return {
    ...kept,
    exports: {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './package.json': './package.json',
    },
  };
}
