import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { ended } from "./containers.ts";
import { QUICK_MS, SLOW_MS, withDeadline } from "./deadline.ts";
import { type Engine, labels, type Owner } from "./engine.ts";
import { asEngineError } from "./errors.ts";
import { followMessages } from "./images.ts";
import { decodeTrace } from "./trace.ts";

const TRACE = '"moby.buildkit.trace"';

/** The building half of the engine: BuildKit through the engine's own API. */
export function buildCalls(docker: Docker, owner: Owner): Pick<Engine, "buildImage" | "exportFiles"> {
  return {
    async buildImage(context, options, onTrace, signal) {
      const stream = await startBuild(docker, context, options, signal);
      try {
        await followMessages("build image", stream, signal, (_message, line) => {
          if (!line.includes(TRACE)) return;
          const { aux }: { aux?: unknown } = JSON.parse(line);
          if (typeof aux === "string") onTrace(decodeTrace(Buffer.from(aux, "base64")));
        });
      } finally {
        // The client library closes the build's session only on a regular end, which an abort is not.
        if (!stream.readableEnded) stream.emit("end");
      }
      signal.throwIfAborted();
    },

    async exportFiles(reference, path, use, signal) {
      const container = await withDeadline("create container", SLOW_MS, () =>
        docker.createContainer({
          Image: reference,
          // Never started: the engine only wants some command on record.
          Cmd: ["-"],
          Labels: { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId, [labels.kind]: "export" },
          NetworkDisabled: true,
        }),
      );
      try {
        const tar = await withDeadline("read files", QUICK_MS, () => container.getArchive({ path }));
        const stream = tar as Readable;
        const [result] = await Promise.all([use(stream), ended("read files", stream, signal)]);
        return result;
      } finally {
        await withDeadline("remove container", SLOW_MS, () => container.remove({ force: true, v: true }));
      }
    },
  };
}

async function startBuild(
  docker: Docker,
  context: Readable,
  options: { tag: string; dockerfile: string; buildArgs: Readonly<Record<string, string>> },
  signal: AbortSignal,
): Promise<Readable> {
  try {
    const stream = await docker.buildImage(context, {
      version: "2",
      t: options.tag,
      dockerfile: options.dockerfile,
      buildargs: { ...options.buildArgs },
      abortSignal: signal,
    });
    return stream as Readable;
  } catch (cause) {
    signal.throwIfAborted();
    throw asEngineError("build image", cause);
  }
}
