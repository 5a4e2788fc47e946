import { splitLastLines } from "@svc/proto";
import { expect, test } from "vitest";
import type { OomScope } from "../engine/oom-scope.ts";
import { TaskFailure } from "../placements/failure.ts";
import { fromBuild } from "./failures.ts";
import { createBuildProgress } from "./progress.ts";

/** What is made of a step that wrote this and then failed. */
function fail(command: string, output: string, outOfMemory: OomScope | null = null): TaskFailure {
  const progress = createBuildProgress([]);
  const vertex = { digest: "d", name: `[2/3] RUN ["/bin/sh","-c","${command}"]`, cached: false, started: true };
  progress.add({ vertexes: [{ ...vertex, completed: false, error: "" }], logs: [] });
  progress.add({ vertexes: [], logs: [{ vertex: "d", text: Buffer.from(output) }] });
  progress.add({ vertexes: [{ ...vertex, completed: true, error: "exit code: 1" }], logs: [] });
  const failure = fromBuild(new Error("solve"), progress, {
    output: null,
    lines: null,
    limits: { memoryMb: 512, cpuMillicores: 1000, pidsLimit: 100, storageMb: 100 },
    pressure: { outOfMemory, outOfProcesses: false },
  });
  if (!(failure instanceof TaskFailure)) throw new Error("not told");
  return failure;
}

/** What is told of it, and why. */
function told(command: string, output: string): string[] {
  const failure = fail(command, output);
  const { reason, lastLines } = splitLastLines(failure.message);
  expect(reason).toBe(`The step "RUN ${command}" failed: exit code 1.`);
  return lastLines;
}

const logFile =
  "npm error A complete log of this run can be found in: /root/.npm/_logs/2030-01-01T00_00_00_000Z-debug-0.log";

/** The beginning and the end of what `npm ci` explains, which is three times as long. */
const usage = `npm error
npm error Clean install a project
npm error
npm error Usage:
npm error npm ci
npm error
npm error Options:
npm error [--install-strategy <hoisted|nested|shallow|linked>] [--legacy-bundling]
${Array.from({ length: 40 }, (_, at) => `npm error   --option-${at}\nnpm error     Sets something.\nnpm error`).join("\n")}
npm error aliases: clean-install, ic, install-clean, isntall-clean
npm error
npm error Run "npm help ci" for more info
${logFile}`;

const noLock = `npm error code EUSAGE
npm error
npm error The \`npm ci\` command can only install with an existing package-lock.json or
npm error npm-shrinkwrap.json with lockfileVersion >= 1. Run an install with npm@5 or
npm error later to generate a package-lock.json file, then try again.`;

const outOfSync = `npm error code EUSAGE
npm error
npm error \`npm ci\` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file with \`npm install\` before continuing.
npm error
npm error Missing: ms@2.1.3 from lock file`;

const notFound = `npm error code E404
npm error 404 Not Found - GET https://registry.example.test/no-such-thing
npm error 404
npm error 404  The requested resource 'no-such-thing@1.0.0' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.`;

const unresolvable = `npm error code ERESOLVE
npm error ERESOLVE unable to resolve dependency tree
npm error
npm error While resolving: app@1.0.0
npm error Found: react@19.0.0
npm error node_modules/react
npm error   react@"19.0.0" from the root project
npm error
npm error Could not resolve dependency:
npm error peer react@"^16.8.5 || ^17.0.0 || ^18.0.0" from react-beautiful-dnd@13.1.1
npm error node_modules/react-beautiful-dnd
npm error   react-beautiful-dnd@"13.1.1" from the root project
npm error
npm error Fix the upstream dependency conflict, or retry this command with --force or --legacy-peer-deps to accept an incorrect (and potentially broken) dependency resolution.`;

const diskFull = `npm error code ENOSPC
npm error syscall write
npm error errno -28
npm error nospc ENOSPC: no space left on device, write
npm error nospc There appears to be insufficient space on your system to finish.
npm error nospc Clear up some disk space and try again.`;

const noPython = `npm error gyp ERR! stack Error: Could not find any Python installation to use
npm error gyp ERR! stack at PythonFinder.fail (/usr/lib/node_modules/npm/node_modules/node-gyp/lib/find-python.js:300:11)
npm error gyp ERR! stack at async run (/usr/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js:81:18)
npm error gyp ERR! System Linux 6.1.0
npm error gyp ERR! command "/usr/bin/node" "/usr/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js" "rebuild"
npm error gyp ERR! cwd /app/node_modules/nativedep
npm error gyp ERR! node -v v24.1.0
npm error gyp ERR! $npm_package_name nativedep
npm error gyp ERR! not ok`;

const findPython = `npm error code 1
npm error path /app/node_modules/nativedep
npm error command failed
npm error command sh -c node-gyp rebuild
npm error gyp info it worked if it ends with ok
${Array.from({ length: 25 }, (_, at) => `npm error gyp ERR! find Python attempt ${at}`).join("\n")}
npm error gyp ERR! configure error
${noPython}`;

const types = `src/a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.
src/b.ts(1,37): error TS2322: Type 'number' is not assignable to type 'string'.`;

const bundling = `✗ Build failed in 502ms
error during build:
[vite]: Rollup failed to resolve import "lodash-nope" from "/app/src/main.ts".
This is most likely unintended because it can break your application at runtime.
If you do want to externalize this module explicitly add it to
\`build.rollupOptions.external\`
    at viteLog (file:///app/node_modules/vite/dist/node/chunks/dep-Cohbwjf9.js:46698:15)`;

const webpack = `Failed to compile.
./src/app/page.tsx
Module not found: Can't resolve 'lodash-nope'
https://nextjs.org/docs/messages/module-not-found
> Build failed because of webpack errors`;

const outdatedPnpm = ` ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile" because pnpm-lock.yaml is not up to date with <ROOT>/package.json
Note that in CI environments this setting is true by default. If you still need to run install in such cases, use "pnpm install --no-frozen-lockfile"
    Failure reason:
    specifiers in the lockfile ({"ms":"2.1.3"}) don't match specs in package.json ({"ms":"2.1.2"})`;

const missingPnpm = `\u2009ERR_PNPM_FETCH_404\u2009 GET https://registry.example.test/no-such-thing: Not Found - 404
This error happened while installing a direct dependency of /app
no-such-thing is not in the npm registry, or you have no permission to fetch it.`;

const frozenYarn = "error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.";
const missingYarn = `error Couldn't find package "no-such-thing" on the "npm" registry.`;
const visit = "info Visit https://yarnpkg.com/en/docs/cli/install for documentation about this command.";

const immutable = `➤ YN0028: │ +"ms@npm:2.1.3":
➤ YN0028: │ +  linkType: hard
➤ YN0000: │
➤ YN0028: │ The lockfile would have been modified by this install, which is explicitly forbidden.`;

const frozenBun = `error: lockfile had changes, but lockfile is frozen
note: dependencies in package.json changed since bun.lock was saved: ms changed from 2.1.3 to 2.1.2`;
const missingBun = `error: GET https://registry.example.test/no-such-thing - 404
error: no-such-thing@1.0.0 failed to resolve`;

test.each([
  { when: "there is no lock file", says: "npm ci", output: `${noLock}\n${usage}`, cause: noLock },
  { when: "the lock file is old", says: "npm ci", output: `${outOfSync}\n${usage}`, cause: outOfSync },
  {
    when: "an older npm says so",
    says: "npm ci",
    output: `${noLock}\n${usage}`.replaceAll("npm error", "npm ERR!"),
    cause: noLock.replaceAll("npm error", "npm ERR!"),
  },
  { when: "a package does not exist", says: "npm ci", output: `${notFound}\n${logFile}`, cause: notFound },
  {
    when: "packages exclude each other",
    says: "npm install",
    output: `${unresolvable}\nnpm error\nnpm error\nnpm error For a full report see:\nnpm error /root/.npm/_logs/x-eresolve-report.txt\n${logFile}`,
    cause: unresolvable,
  },
  { when: "the disk is full", says: "npm ci", output: `${diskFull}\n${logFile}`, cause: diskFull },
  { when: "there is no Python", says: "npm ci", output: `${findPython}\n${logFile}`, cause: noPython },
  {
    when: "types are wrong",
    says: "npm run build",
    output: `> app@1.0.0 build\n> tsc && vite build\n${types}`,
    cause: types,
  },
  {
    when: "a workspace's types are wrong",
    says: "npm run build",
    output: `${types}\nnpm error Lifecycle script \`build\` failed with error:\nnpm error code 2\nnpm error path /app/apps/web\nnpm error workspace web@1.0.0\nnpm error location /app/apps/web\nnpm error command failed\nnpm error command sh -c tsc && vite build`,
    cause: types,
  },
  { when: "a module is missing", says: "npm run build", output: `transforming...\n${bundling}`, cause: bundling },
  { when: "webpack misses a module", says: "npm run build", output: `Creating a build\n${webpack}`, cause: webpack },
  { when: "pnpm's lock file is old", says: "pnpm install", output: `Scope: all\n${outdatedPnpm}`, cause: outdatedPnpm },
  { when: "pnpm finds no package", says: "pnpm install", output: missingPnpm, cause: missingPnpm },
  {
    when: "a script fails below pnpm",
    says: "pnpm run build",
    output: `> app@1.0.0 build /app\n> tsc\n${types}\n ELIFECYCLE  Command failed with exit code 2.\n WARN   Local package.json exists, but node_modules missing, did you mean to install?`,
    cause: types,
  },
  {
    when: "yarn's lock file is old",
    says: "yarn install",
    output: `[1/4] Resolving\n${frozenYarn}\n${visit}`,
    cause: frozenYarn,
  },
  {
    when: "yarn finds no package",
    says: "yarn install",
    output: `[1/4] Resolving\n${missingYarn}\n${visit}`,
    cause: missingYarn,
  },
  {
    when: "a script fails below yarn",
    says: "yarn run build",
    output: `$ tsc\n${types}\nerror Command failed with exit code 2.\n${visit.replace("install", "run")}`,
    cause: types,
  },
  {
    when: "a newer yarn would change its lock file",
    says: "yarn install",
    output: `➤ YN0000: ┌ Post-resolution validation\n${immutable}\n➤ YN0000: └ Completed\n➤ YN0000: · Failed with errors in 0s 228ms`,
    cause: immutable,
  },
  { when: "bun's lock file is old", says: "bun install", output: `bun install v1.4.5\n${frozenBun}`, cause: frozenBun },
  {
    when: "bun finds no package",
    says: "bun install",
    output: `Resolving dependencies\n${missingBun}`,
    cause: missingBun,
  },
  {
    when: "a script fails below bun",
    says: "bun run build",
    output: `$ tsc\n${types}\nerror: script "build" exited with code 2`,
    cause: types,
  },
])("when $when, the lines that say so are told, and no manual", ({ says, output, cause }) => {
  const lines = told(says, `${output}\n`);
  expect(lines.join("\n")).toContain(cause);
  expect(lines.at(-1)).toBe(cause.split("\n").at(-1));
  expect(lines.join("\n")).not.toMatch(/Usage:|Options:|Clean install a project|A complete log|Visit https|ELIFECYCLE/);
});

test.each([
  { outOfMemory: "limit", says: "out of memory. A build may use 512 MB" },
  { outOfMemory: "machine", says: "the platform's machine was out of memory. Try again later" },
  { outOfMemory: "unknown", says: "out of memory. A build may use 512 MB" },
] as const)("a step that was killed for want of memory is told whose: $outOfMemory", ({ outOfMemory, says }) => {
  const failure = fail("npm run build", "", outOfMemory);
  expect(failure.code).toBe("OUT_OF_MEMORY");
  expect(failure.message).toContain(says);
});
