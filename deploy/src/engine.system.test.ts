import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startOwnEngine } from "@svc/runtime/testing/own-engine";
import Docker from "dockerode";
import { expect, test } from "vitest";
import { engineEnvironment, engineVersion } from "./engine.ts";
import { readSettings } from "./settings.ts";

const settings = readSettings(process.env, ".");

test("steps of an engine that is started here have the rights of a build and no raw sockets", {
  timeout: 600_000,
}, async () => {
  await using engine = await startOwnEngine({ env: engineEnvironment(process.env, await engineVersion()) });
  const own = new Docker({ socketPath: engine.socketPath });
  const machine = new Docker({ socketPath: settings.dockerSocket });
  const image = await machine.getImage(settings.baseImage).get();
  await finished(own, await own.loadImage(image));

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
  const stream = await own.buildImage({ context, src: ["Dockerfile"] }, { version: "2", t: "built:here" });
  await finished(own, stream);
  await rm(context, { recursive: true });

  const container = await own.createContainer({ Image: "built:here", Cmd: ["cat", "/rights"], Tty: true });
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
