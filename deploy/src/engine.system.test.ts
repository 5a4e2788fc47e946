import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { run } from "@svc/runtime/command";
import { argv, spawnProgram } from "@svc/runtime/programs";
import Docker from "dockerode";
import { expect, test } from "vitest";
import { engineEnvironment, findEngine } from "./engine.ts";
import { readSettings } from "./settings.ts";

const settings = readSettings(process.env, ".");

/** An engine as it is started here, beside the one of the machine and with data of its own. */
async function startEngine(): Promise<AsyncDisposable & { docker: Docker }> {
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "svc-engine-"));
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));
  const socketPath = join(dir, "sock");
  const bridge = `svcen${randomBytes(3).toString("hex")}`;
  await run(["ip", "link", "add", bridge, "type", "bridge"]);
  cleanup.defer(async () => void (await run(["ip", "link", "delete", bridge])));
  await run(["ip", "address", "add", `10.213.${randomInt(256)}.1/29`, "dev", bridge]);
  const dockerd = argv(
    "dockerd",
    ...["--data-root", join(dir, "data"), "--exec-root", join(dir, "exec"), "--pidfile", join(dir, "pid")],
    ...["--host", `unix://${socketPath}`, "--bridge", bridge, "--log-level", "error"],
    ...["--iptables=false", "--ip-masq=false", "--ip-forward=false"],
  );
  // Ends with the test also when that is killed.
  const child = spawnProgram(["setpriv", "--pdeathsig", "TERM", ...dockerd], {
    env: engineEnvironment(process.env),
    stdio: "ignore",
  });
  const exited = once(child, "exit");
  cleanup.defer(async () => {
    child.kill("SIGTERM");
    await exited;
  });
  while ((await findEngine(socketPath)) === null) {
    if (child.exitCode !== null) throw new Error(`the engine ended with code ${child.exitCode}`);
    await delay(200);
  }
  const kept = cleanup.move();
  return { docker: new Docker({ socketPath }), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

test("steps of an engine that is started here have the rights of a build and no raw sockets", {
  timeout: 600_000,
}, async () => {
  await using own = await startEngine();
  const machine = new Docker({ socketPath: settings.dockerSocket });
  const image = await machine.getImage(settings.baseImage).get();
  await finished(own.docker, await own.docker.loadImage(image));

  const context = await mkdtemp(join(tmpdir(), "svc-context-"));
  const packet =
    "use Socket; socket(my $s, $ARGV[0], SOCK_RAW, $ARGV[1]) and die 'a raw socket'; print qq(none: $!\\n)";
  const steps = [
    `FROM ${settings.baseImage}`,
    "RUN grep ^Cap /proc/self/status > /rights",
    `RUN perl -e "${packet.replaceAll("$", "\\$")}" 17 768 >> /rights && perl -e "${packet.replaceAll("$", "\\$")}" 2 1 >> /rights`,
    // What packages do as they are installed.
    "RUN useradd --create-home someone && chown someone /rights && chmod u+s /rights && setpriv --reuid someone true",
    "",
  ];
  await writeFile(join(context, "Dockerfile"), steps.join("\n"));
  const stream = await own.docker.buildImage({ context, src: ["Dockerfile"] }, { version: "2", t: "built:here" });
  await finished(own.docker, stream);
  await rm(context, { recursive: true });

  const container = await own.docker.createContainer({ Image: "built:here", Cmd: ["cat", "/rights"], Tty: true });
  await container.start();
  await container.wait();
  const rights = (await container.logs({ stdout: true })).toString("utf8");
  // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT SETFCAP
  expect(rights).toMatch(/^CapBnd:\t00000000800405fb\r$/m);
  expect(rights).toMatch(/^CapEff:\t00000000800405fb\r$/m);
  expect(rights.match(/^none: Operation not permitted\r$/gm)).toHaveLength(2);
  // An app has its rights from whoever starts it.
  await container.remove();
});

/** Throws the error that the engine ends a stream of messages with. */
const finished = (docker: Docker, stream: NodeJS.ReadableStream): Promise<void> =>
  new Promise((resolve, reject) => {
    docker.modem.followProgress(stream, (error) => (error === null ? resolve() : reject(error)));
  });
