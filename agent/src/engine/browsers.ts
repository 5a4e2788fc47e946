import type { Duplex } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { wayDirOf } from "../captures/way-dir.ts";
import { toResources } from "./containers.ts";
import { closedOff } from "./databases.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type BrowserContainerSpec, type Engine, labels, type Owner } from "./engine.ts";
import { asEngineError } from "./errors.ts";
import { standardOutput } from "./frames.ts";

/** Its profile and what pages store: in memory, within the container's limit, and gone with it. */
const memoryDirs = { "/tmp": "rw,noexec,nosuid,nodev,size=128m,mode=1777" };

/** The part of the engine that has a browser look at a site, and talks to it. */
export function browserCalls(clock: Clock, docker: Docker, owner: Owner): Pick<Engine, "startBrowser"> {
  return {
    async startBrowser(spec) {
      const container = await withDeadline(clock, "create container", slowMs, () =>
        docker.createContainer(toOptions(spec, owner)),
      );
      // Before it starts, so that nothing of what it says is missed.
      const stream = (await withDeadline(clock, "attach to container", quickMs, () =>
        container.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true }),
      )) as unknown as Duplex;
      // Whoever writes to it when it has ended hears of that by its output.
      stream.on("error", () => {});
      try {
        await withDeadline(clock, "start container", slowMs, () => container.start());
      } catch (cause) {
        stream.destroy();
        throw cause;
      }
      return {
        output: readable(stream),
        send(bytes) {
          if (stream.writable) stream.write(bytes);
        },
        async end() {
          const { State } = await withDeadline(clock, "inspect container", quickMs, () => container.inspect());
          return { oomKilled: State.OOMKilled };
        },
      };
    },
  };
}

/** What it says of its troubles is about the machine that it does not have, and for nobody. */
async function* readable(stream: Duplex): AsyncGenerator<Buffer> {
  try {
    yield* standardOutput(stream, () => {});
  } catch (cause) {
    throw asEngineError("read the output of a container", cause);
  } finally {
    stream.destroy();
  }
}

function toOptions(spec: BrowserContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  return {
    name: spec.name,
    Image: spec.image,
    Cmd: [...spec.settings],
    Env: ["HOME=/tmp"],
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: "capture",
    },
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      ...closedOff,
      ...toResources(spec, spec.reserved),
      Tmpfs: memoryDirs,
      Mounts: [{ Type: "bind", Source: wayDirOf(owner, spec.placementId), Target: "/way", ReadOnly: true }],
      // What is on the page is the tenant's.
      LogConfig: { Type: "none", Config: {} },
    },
  };
}
