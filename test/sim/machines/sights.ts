import type { Machine } from "@svc/agent/node/machine";
import type { Scope } from "../kernel/kernel.ts";
import { createAnswer } from "../kernel/ports.ts";
import type { Container, Docker } from "./docker.ts";
import { gateOf } from "./engine.ts";
import { copyStatus } from "./keepers.ts";

/** How long a look at the machine itself takes. */
const lookMs = 0.2;

/** What the agent sees of its machine beside the engine, for one life of it. None of it waits for the engine. */
export function virtualMachine(scope: Scope, docker: Docker, bootId: string): Machine {
  const look = <T>(tag: string, see: () => T): Promise<T> => {
    const answer = createAnswer<T>(scope);
    const answerNow = (): void => {
      try {
        answer.resolve(see(), 0, tag);
      } catch (error) {
        answer.reject(error, 0, tag);
      }
    };
    if (!scope.isOver) docker.kernel.at(lookMs, tag, answerNow, scope.process);
    return answer.promise;
  };
  const gated = (directory: string): Container | undefined =>
    docker.only((container) => container.kind === "run" && gateOf(container) === directory);
  const read = (directory: string) => {
    const gate = gated(directory)?.gate ?? "none";
    // Before it was opened its directory is not as it is left for whoever comes first.
    return gate === "none" ? "gone" : gate === "new" ? "claimed" : gate;
  };
  return {
    bootId,
    gates: {
      open: (directory) =>
        look("gate opens", () => {
          const container = gated(directory);
          if (container === undefined) throw new Error("ENOENT: no such file or directory");
          container.gate = "open";
        }),
      read: (directory) => look("gate", () => read(directory)),
      shut: (directory) =>
        look("gate shuts", () => {
          const container = gated(directory);
          if (container?.gate === "open") container.gate = "shut";
          return read(directory);
        }),
    },
    isPortFree: (_address, port) => look("port", () => !docker.isPortTaken(port)),
    tcpTables: (pid) =>
      look("sockets", () => {
        const container = docker.only((each) => each.state === "running" && each.pid === pid);
        if (container === undefined) return null;
        const open = `   1: 020011AC:${portText} 010011AC:D431 01 00000000:00000000 00:00000000 00000000 0 0 1`;
        return [["  sl  local_address rem_address   st", ...(docker.isOpen(container.name) ? [open] : [])].join("\n")];
      }),
    laySocketDir: () => look("directory of a socket", () => {}),
    probeDatabase({ socketPath }, timeoutMs, signal) {
      const answer = createAnswer<boolean>(scope);
      docker.kernel.at(
        docker.databases.random.between(0.5, 5),
        "probe",
        () => {
          const container = docker.only((each) => each.server?.socketPath === socketPath && each.state === "running");
          const waitMs = container?.isSick === true ? timeoutMs : 0;
          const isAnswering = container !== undefined && docker.isAnswering(container.name);
          answer.resolve(isAnswering, waitMs, "probe answered");
        },
        scope.process,
      );
      signal.addEventListener("abort", () => answer.resolve(false, 0, "probe ends"), { once: true });
      return answer.promise;
    },
    layCopyDoor: () => look("door of a copy", () => {}),
    removeOtherCopyDoors: async () => {},
    findCopyStatus: (path) => look("status of a copy", () => copyStatus(docker, path)),
    measureVolume: () => look("size of a volume", () => 1),
    probe(upstream, path, timeoutMs, signal) {
      const answer = createAnswer<{ healthy: boolean; seen: string; hint: string }>(scope);
      const port = Number(upstream.split(":").at(-1));
      docker.kernel.at(
        docker.process.random.between(0.5, 5),
        "probe",
        () => {
          const container = docker.only(
            (each) => each.kind === "serve" && each.state === "running" && each.port === port,
          );
          const seen = container === undefined ? "nothing accepted a connection on its port" : `it answered ${path}`;
          // A program that hangs takes the connection and says nothing.
          const waitMs = container?.isSick === true ? timeoutMs : 0;
          const healthy = container !== undefined && docker.isAnswering(container.name);
          answer.resolve({ healthy, seen, hint: "" }, waitMs, "probe answered");
        },
        scope.process,
      );
      signal.addEventListener("abort", () => answer.resolve({ healthy: false, seen: "", hint: "" }, 0, "probe ends"), {
        once: true,
      });
      return answer.promise;
    },
  };
}

/** Where containers of this world listen, as the kernel prints a port. */
const portText = (80).toString(16).toUpperCase().padStart(4, "0");
