import type { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { socketDirOf } from "../databases/socket-dir.ts";
import { toResources } from "./containers.ts";
import type { DatabaseVolumes } from "./database-volumes.ts";
import { closedOff, copyMount, copyOf } from "./databases.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import {
  type DumpContainerSpec,
  type Engine,
  type HeardProgram,
  labels,
  type Owner,
  type ProofContainerSpec,
} from "./engine.ts";
import { asEngineError } from "./errors.ts";
import { standardOutput } from "./frames.ts";

/** Of what a program says of its troubles, the last part. */
const errorsMaxBytes = 16 * 1024;

/** The part of the engine that has programs read databases, and hears what they say. */
export function dumpCalls(
  clock: Clock,
  docker: Docker,
  owner: Owner,
  volumes: Pick<DatabaseVolumes, "requireVolume">,
): Pick<Engine, "startDump" | "startProof"> {
  const startHeard = async (options: Docker.ContainerCreateOptions): Promise<HeardProgram> => {
    const container = await withDeadline(clock, "create container", slowMs, () => docker.createContainer(options));
    // Before it starts: nothing of its output is kept anywhere.
    // The client's types take an answer for something that is written to, too.
    const stream = (await withDeadline(clock, "attach to container", quickMs, () =>
      container.attach({ stream: true, stdout: true, stderr: true }),
    )) as unknown as Readable;
    let errors = Buffer.alloc(0);
    const hear = (text: Buffer): void => {
      errors = Buffer.concat([errors, text]).subarray(-errorsMaxBytes);
    };
    try {
      await withDeadline(clock, "start container", slowMs, () => container.start());
    } catch (cause) {
      stream.destroy();
      throw cause;
    }
    return {
      output: readable(stream, hear),
      async end() {
        await withDeadline(clock, "wait for container", quickMs, () => container.wait());
        const { State } = await withDeadline(clock, "inspect container", quickMs, () => container.inspect());
        return { exitCode: State.ExitCode, oomKilled: State.OOMKilled, errors: errors.toString("utf8") };
      },
    };
  };

  return {
    startDump: (spec) => startHeard(toOptions(spec, owner)),
    async startProof(spec) {
      // The engine would make an empty volume of that name.
      await volumes.requireVolume(copyOf(spec.copyId));
      return startHeard(toProofOptions(spec, owner));
    },
  };
}

async function* readable(stream: Readable, onError: (text: Buffer) => void): AsyncGenerator<Buffer> {
  try {
    yield* standardOutput(stream as AsyncIterable<Buffer>, onError);
  } catch (cause) {
    throw asEngineError("read the output of a container", cause);
  } finally {
    stream.destroy();
  }
}

function toOptions(spec: DumpContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  const { databaseId, command } = spec;
  return {
    name: spec.name,
    Image: spec.image,
    Entrypoint: [...command],
    Cmd: [],
    Env: Object.entries(spec.env).map(([key, value]) => `${key}=${value}`),
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: "backup",
      [labels.database]: databaseId,
    },
    AttachStdout: true,
    AttachStderr: true,
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      ...closedOff,
      ...toResources(spec, spec.reserved),
      Mounts: [{ Type: "bind", Source: socketDirOf(owner, databaseId), Target: "/socket", ReadOnly: true }],
      // What it writes is what the tenant stores: it passes by, and is put down nowhere on this machine.
      LogConfig: { Type: "none", Config: {} },
    },
  };
}

function toProofOptions(spec: ProofContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  const { copyId, databaseId, settings } = spec;
  return {
    name: spec.name,
    Image: spec.image,
    Cmd: ["prove", ...settings],
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: "proof",
      [labels.database]: databaseId,
      [labels.copy]: copyId,
    },
    AttachStdout: true,
    AttachStderr: true,
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      ...closedOff,
      ...toResources(spec, spec.reserved),
      // A volume without a name goes with its container.
      Mounts: [copyMount(copyId), { Type: "volume", Source: "", Target: "/data" }],
      // Names of the tenant's tables are in it.
      LogConfig: { Type: "none", Config: {} },
    },
  };
}
