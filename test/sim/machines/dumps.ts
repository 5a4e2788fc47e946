import type { HeardProgram } from "@svc/agent/engine/engine";
import { EngineError } from "@svc/agent/engine/errors";
import { verifierOf } from "@svc/control/fleet/databases/verifier";
import type { Scope } from "../kernel/kernel.ts";
import { createAnswer } from "../kernel/ports.ts";
import type { Container, Docker } from "./docker.ts";

/** The container of a program that reads a database out, on the machine of its server. */
export interface Dump {
  databaseId: string;
  password: string;
  /** What it has written so far. */
  readonly said: string[];
  /** Whoever waits for more, or for its end. */
  readonly waiting: Set<() => void>;
}

const lastLines = { postgres: "-- PostgreSQL database dump complete\n", mariadb: "-- Dump completed\n" } as const;

/** How one may end that nobody ends: with everything mostly; or with a part, or with everything and an error, as it says or does not. */
const endings = [
  { isCut: true, exitCode: 1 },
  { isCut: true, exitCode: 0 },
  { isCut: false, exitCode: 1 },
] as const;
const endsBadlyShare = 0.1;

/** What a dumper does from its start on: it logs in, and writes as long as the server is there. */
export function writeDump(docker: Docker, container: Container, dump: Dump, exit: (code: number) => void): void {
  const { kernel, databases, witness } = docker;
  const { random } = databases;
  const { databaseId, said, waiting } = dump;
  const ending = random.chance(endsBadlyShare) ? random.pick(endings) : { isCut: false, exitCode: 0 };
  const lines = random.int(3, 10);
  /** The session that it has: none goes on with the next server. */
  let session: { server: Container; sinceMs: number } | null = null;
  const logIn = (): void => {
    const server = docker.only((each) => each.server?.databaseId === databaseId && databases.isAnswering(each));
    const role = databases.volumes.get(server?.server?.volume ?? "")?.role;
    const engine = server?.server?.engine;
    if (server === undefined || engine === undefined) return;
    if (role?.verifier === verifierOf(engine, databaseId, dump.password))
      session = { server, sinceMs: server.startedAtMs };
  };
  const step = (at: number): void =>
    void kernel.at(random.between(20, 1_500), "dumper writes", () => {
      if (container.state !== "running") return;
      if (at === 0) logIn();
      const engine = session?.server.server?.engine;
      const isOn = session?.sinceMs === session?.server.startedAtMs && session?.server.state === "running";
      if (engine === undefined || !isOn) return exit(2);
      if (ending.isCut && at === lines - 1) return exit(ending.exitCode);
      const isLast = at === lines;
      said.push(isLast ? `\n${lastLines[engine]}` : `${container.instance} line ${at} of ${lines}\n`);
      for (const wake of waiting) wake();
      if (!isLast) return step(at + 1);
      if (ending.exitCode === 0) witness.databases.onDumped(said.join(""));
      exit(ending.exitCode);
    });
  step(0);
}

/** What the agent hears of it. */
export function heardDump(docker: Docker, scope: Scope, container: Container, dump: Dump): HeardProgram {
  const { said, waiting } = dump;
  const isThere = (): boolean => docker.containers.get(container.name) === container;
  async function* output(): AsyncGenerator<Buffer> {
    for (let at = 0; ; at += 1) {
      const answer = createAnswer<string | null>(scope);
      const look = (): void => {
        const isOver = container.state !== "running" || !isThere();
        if (at >= said.length && !isOver) return;
        waiting.delete(look);
        answer.resolve(said[at] ?? null, 0.5, "dumper is heard");
      };
      waiting.add(look);
      look();
      const text = await answer.promise;
      if (text === null) return;
      yield Buffer.from(text);
    }
  }
  return {
    output: output(),
    end: () =>
      docker.order(
        scope,
        "docker wait",
        () => {
          if (!isThere()) throw new EngineError("not-found", "no such container");
          return { exitCode: container.exitCode, oomKilled: false, errors: "" };
        },
        5,
      ),
  };
}
