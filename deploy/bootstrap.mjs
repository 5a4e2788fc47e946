// Runs on whatever Node the machine has, before anything is installed: plain JavaScript, node: imports only.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runChecks } from "./setup/checks.mjs";
import { generate } from "./setup/generated.mjs";
import { ensurePackages, nodeBinary } from "./setup/packages.mjs";
import { ensurePrograms } from "./setup/programs.mjs";
import { runForeground, SetupError } from "./setup/run.mjs";
import { filesToRunAgain, flakyLines, slowestFiles, tally, withSecondRuns } from "./setup/tally.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const oldestNode = 20;

/** Our Node and our tools come first, whatever the caller's PATH says. */
const environment = () => ({
  ...process.env,
  PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH ?? ""}:/usr/local/sbin:/usr/sbin:/sbin`,
});

const runNode = (script, args) =>
  runForeground([nodeBinary(root), join(root, script), ...args], { env: environment() });

/** One run of vitest: its exit code, and its report or null when it wrote none. */
async function runVitest(args) {
  const dir = mkdtempSync(join(tmpdir(), "svc-report-"));
  const reportFile = join(dir, "report.json");
  try {
    const code = await runNode("node_modules/vitest/vitest.mjs", [
      "run",
      "--root",
      root,
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${reportFile}`,
      ...args,
    ]);
    let report = null;
    try {
      report = JSON.parse(readFileSync(reportFile, "utf8"));
    } catch {}
    return { code, report };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function runTests(args) {
  const first = await runVitest(args);
  console.log(["Slowest files:", ...slowestFiles(first.report, root)].join("\n"));
  // Whoever names files or tests wants to see how these fail.
  const isWhole = args.every((arg) => arg.startsWith("--project"));
  const again = isWhole ? filesToRunAgain(first.report, first.code) : [];
  if (again.length === 0) return conclude(first.report, first.code);
  const seconds = [];
  for (const file of again) {
    console.log(`\nOnce more, alone: ${file}`);
    seconds.push(await runVitest([...args, file]));
  }
  const passed = again.filter((_, at) => seconds[at].code === 0);
  if (passed.length > 0) console.log(flakyLines(first.report, passed).join("\n"));
  const reports = seconds.map(({ report }) => report);
  return conclude(withSecondRuns(first.report, reports), Math.max(...seconds.map(({ code }) => code)), passed.length);
}

function conclude(report, code, flaky = 0) {
  const { passed, failed } = tally(report, code);
  console.log(`${passed} passed, ${failed} failed${flaky > 0 ? `, ${flaky} FLAKY` : ""}`);
  return code;
}

const commands = {
  start: { programs: true, run: (args) => runNode("deploy/src/main.ts", ["start", ...args]) },
  stop: { programs: false, run: (args) => runNode("deploy/src/main.ts", ["stop", ...args]) },
  // Real applications and releases of Debian take minutes and what others serve, and all the faults take long: they run
  // only when they are named.
  test: {
    programs: true,
    forTests: true,
    run: (args) =>
      runTests(
        args.some((arg) => arg.startsWith("--project"))
          ? args
          : [...["apps", "faults", "debian"].map((name) => `--project=!${name}`), ...args],
      ),
  },
  "test:apps": { programs: true, forTests: true, run: (args) => runTests(["--project=apps", ...args]) },
  "test:debian": { programs: true, forTests: true, run: (args) => runTests(["--project=debian", ...args]) },
  faults: { programs: true, forTests: true, run: (args) => runTests(["--project=faults", ...args]) },
  sim: { programs: false, run: (args) => runNode("test/sim/main.ts", args) },
  bench: { programs: true, run: (args) => runNode("test/bench/main.ts", args) },
  "bench:cluster": { programs: true, run: (args) => runNode("test/bench/cluster/main.ts", args) },
  "edge:build": { programs: false, run: () => runNode("deploy/src/edge-caddy/main.ts", []) },
  "capture-image": { programs: false, run: (args) => runNode("deploy/src/capture/main.ts", args) },
  check: { programs: false, run: () => runChecks(root, environment()) },
  generate: { programs: false, run: () => generate(root, environment()) },
};

async function main([name, ...args]) {
  const command = Object.hasOwn(commands, name ?? "") ? commands[name] : undefined;
  if (command === undefined)
    throw new SetupError(`usage: node deploy/bootstrap.mjs <${Object.keys(commands).join("|")}>`);
  if (Number(process.versions.node.split(".")[0]) < oldestNode) {
    throw new SetupError(`Node ${process.versions.node} is too old for set-up; install Node ${oldestNode} or newer`);
  }
  if (process.platform !== "linux") throw new SetupError("svc runs on Linux");
  await ensurePackages(root);
  if (command.programs) await ensurePrograms({ forTests: command.forTests === true });
  return command.run(args);
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  console.error(`svc: ${error.message}`);
  process.exitCode = 1;
}
