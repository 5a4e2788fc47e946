import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";

/** As `BenchServer` of the server that is measured. */
export interface ApiServer {
  url: string;
  open: string;
  closed: string;
  /** What the first account has: a project with twenty deployments, the newest of them, and the list of them. */
  project: string;
  deployment: string;
  deployments: string;
  accounts: { key: string; session: string; cookie: string }[];
}

/** Control's API alone, on a Postgres of its own, with `accounts` accounts. */
export async function startServer(accounts: number) {
  const script = join(repositoryRoot, "control", "src", "http", "testing-bench.ts");
  const child = spawnProgram([nodeBinary(), script, String(accounts)], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the server that is measured did not start"))),
  ])) as [string];
  if (child.pid === undefined) throw new Error("the server that is measured has ended");
  return {
    server: JSON.parse(line) as ApiServer,
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      const exited = once(child, "exit");
      child.stdin.end();
      await exited;
    },
  };
}

/** Writes GET requests to the server, head and all. */
export const requestText = (url: string) => {
  const { host } = new URL(url);
  return (path: string, ...headers: string[]): string =>
    [`GET ${path} HTTP/1.1`, `Host: ${host}`, ...headers, "", ""].join("\r\n");
};
