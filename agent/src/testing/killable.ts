import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import type { TestNode } from "./agent.ts";
import type { TestControl } from "./control.ts";

/** An agent in a process of its own, which may be killed and started again. */
export type KillableAgent = AsyncDisposable & {
  /** Resolves once it is in session. */
  start(): Promise<void>;
  /** SIGKILL: it gets no chance to tidy up. */
  kill(): Promise<void>;
};

const program = fileURLToPath(new URL("./child.ts", import.meta.url));

export async function createKillableAgent(node: TestNode, control: TestControl): Promise<KillableAgent> {
  const sessions = new Set<ServerHttp2Session>();
  const link = createServer(connectNodeAdapter({ routes: control.routes }));
  link.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => sessions.delete(session));
  });
  link.listen(0, "127.0.0.1");
  await once(link, "listening");
  const { port } = link.address() as AddressInfo;
  let child: ChildProcess | null = null;

  const kill = async (): Promise<void> => {
    if (child !== null && child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    child = null;
    for (const session of sessions) session.destroy();
  };

  return {
    async start() {
      child = spawnProgram([thisNode, program], {
        env: {
          ...process.env,
          TEST_CONTROL_URL: `http://127.0.0.1:${port}`,
          SVC_AGENT_DIR: node.config.dir,
          SVC_AGENT_ADDRESS: node.config.address,
          SVC_AGENT_SUBNETS: node.config.subnets,
          SVC_AGENT_EGRESS: node.config.egress.mode,
          SVC_LOG_LEVEL: "silent",
        },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [text] = await Promise.race([once(child.stdout ?? child, "data"), once(child, "exit")]);
      if (String(text) !== "ready\n") throw new Error(`the agent did not start: ${text}`);
    },
    kill,
    async [Symbol.asyncDispose]() {
      await kill();
      await new Promise((resolve) => link.close(resolve));
    },
  };
}
