import { constants, copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { engineOutput } from "../../runtime/src/engine-output.mjs";
import { programs } from "../../runtime/src/program-list.mjs";
import { findProgram, runQuietly, SetupError } from "./run.mjs";

/** Names of the programs that are needed here and missing. */
export function missingPrograms(facts, find = findProgram) {
  const needs = { debian: true, start: true, engine: !facts.dockerAnswers, root: facts.isRoot, tests: facts.forTests };
  return Object.entries(programs)
    .filter(([, { need }]) => needs[need] === true)
    .filter(([name, { orElse = [] }]) => ![name, ...orElse].some((each) => find(each) !== null))
    .map(([name]) => name);
}

/** Debian packages of programs, each once. */
export const packagesOf = (names) => [...new Set(names.map((name) => programs[name].debian))];

const dockerAnswers = (socketPath) =>
  new Promise((resolve) => {
    const socket = connect(socketPath);
    const settle = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(2_000, () => settle(false));
    socket.once("connect", () => settle(true));
    // A socket that may not be opened belongs to a running engine all the same.
    socket.once("error", (error) => settle(error.code === "EACCES"));
  });

const policyFile = "/usr/sbin/policy-rc.d";

/** Does what makes a new file, unless somebody has put one there before. */
function unlessThere(make) {
  try {
    make();
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
}

/** Lines of a systemd unit that give a service these variables. */
export const serviceEnvironment = (variables) =>
  ["[Service]", ...Object.entries(variables).map(([name, value]) => `Environment=${name}=${value}`), ""].join("\n");

/**
 * The engine that was installed here makes root in containers nobody on the host, gives steps of builds no raw
 * sockets (its service finds our `runc` before the real one), and passes on what they write.
 */
function prepareEngine() {
  mkdirSync("/etc/docker", { recursive: true });
  const settings = `${JSON.stringify({ "userns-remap": "default" }, null, 2)}\n`;
  unlessThere(() => writeFileSync("/etc/docker/daemon.json", settings, { flag: "wx" }));
  const runc = fileURLToPath(new URL("../engine/runc", import.meta.url));
  unlessThere(() => copyFileSync(runc, "/usr/local/sbin/runc", constants.COPYFILE_EXCL));
  const dropIns = "/etc/systemd/system/docker.service.d";
  mkdirSync(dropIns, { recursive: true });
  const output = serviceEnvironment(engineOutput(runQuietly(["dockerd", "--version"])));
  unlessThere(() => writeFileSync(`${dropIns}/svc-output.conf`, output, { flag: "wx" }));
  runQuietly(["systemctl", "daemon-reload"]);
}

/** Debian starts and enables what it installs; here the platform starts its own copies on its own ports. */
function installPackages(names) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"];
  const ownPolicy = !existsSync(policyFile);
  if (ownPolicy) writeFileSync(policyFile, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    runQuietly([...apt, "update"], { env });
    runQuietly([...apt, "install", "--no-install-recommends", ...names], { env });
  } finally {
    if (ownPolicy) rmSync(policyFile, { force: true });
  }
  if (!existsSync("/run/systemd/system")) return;
  const units = ["etcd", "caddy", "docker-registry"].filter((unit) => names.some((name) => name.startsWith(unit)));
  if (units.length > 0) runQuietly(["systemctl", "disable", ...units.map((unit) => `${unit}.service`)]);
  if (!names.includes("docker.io")) return;
  prepareEngine();
  runQuietly(["systemctl", "start", "docker.service"]);
}

/**
 * Sees to it that every needed program is there: installs what is missing where it may (root on Debian),
 * otherwise throws `SetupError` that lists all of it with the one command that gets it.
 */
export async function ensurePrograms({ forTests }) {
  const isRoot = process.getuid?.() === 0;
  const facts = {
    forTests,
    isRoot,
    dockerAnswers: await dockerAnswers(process.env.SVC_DOCKER_SOCKET || "/var/run/docker.sock"),
  };
  const missing = missingPrograms(facts);
  if (missing.length === 0) return;
  const packageNames = packagesOf(missing);
  const apt = findProgram("apt-get") !== null;
  if (isRoot && apt) {
    console.error(`svc: installing ${packageNames.join(", ")}`);
    installPackages(packageNames);
    const still = missingPrograms(facts);
    if (still.length === 0) return;
    throw new SetupError(`still missing after installation: ${still.join(", ")}`);
  }
  const command = `${isRoot ? "" : "sudo "}apt-get install --no-install-recommends ${packageNames.join(" ")}`;
  const lines = missing.map((name) => `  ${name.padEnd(16)} (Debian package ${programs[name].debian})`);
  throw new SetupError(
    `these programs are missing:\n${lines.join("\n")}\n${apt ? `get them with:\n  ${command}` : "install them with your system's package manager"}`,
  );
}
