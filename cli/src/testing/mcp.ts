import { once } from "node:events";
import { join } from "node:path";
import { type CallToolResult, Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { testedProgram } from "./svc.ts";

export interface McpOptions {
  cwd: string;
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** The program; default: the tested one. */
  program?: string;
}

/** How the program is started, with nothing of the tester's login. */
function startOf({ cwd, args = [], env = {}, program }: McpOptions) {
  const tested = testedProgram();
  return {
    program: program ?? tested.program,
    args: ["mcp", ...args],
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: join(cwd, ".home"),
      XDG_CACHE_HOME: tested.cache,
      ...env,
    },
  };
}

/** The official client, connected to a program of its own. */
export async function connectMcp(options: McpOptions): Promise<Client & AsyncDisposable> {
  const { program, args, env } = startOf(options);
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(
    new StdioClientTransport({ command: thisNode, args: [program, ...args], env, cwd: options.cwd, stderr: "ignore" }),
  );
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

/** What a tool answered: its fields, which have to be the same in its text. */
export function fieldsOf(result: CallToolResult): Record<string, unknown> {
  const [first] = result.content;
  if (first?.type !== "text") throw new Error(`no text: ${JSON.stringify(result)}`);
  const fields: Record<string, unknown> = JSON.parse(first.text);
  if (result.isError !== true && JSON.stringify(result.structuredContent) !== first.text)
    throw new Error("the text says something else than the fields");
  return fields;
}

/** A message as it came, which has to be JSON-RPC. */
export interface Message {
  jsonrpc: "2.0";
  id?: number;
  result?: Record<string, unknown>;
  error?: { code: number };
}

/** The program behind its bare pipes. */
export interface RawMcp extends AsyncDisposable {
  /** Writes a line. */
  line(text: string): void;
  /** Sends a request, and waits for its answer. */
  request(method: string, params?: object): Promise<Message>;
  notify(method: string, params?: object): void;
  closeInput(): void;
  kill(signal: NodeJS.Signals): void;
  /** All of stdout so far. */
  stdout(): string;
  stderr(): string;
  readonly ended: Promise<{ status: number | null; signal: NodeJS.Signals | null }>;
}

export function startRawMcp(options: McpOptions): RawMcp {
  const { program, args, env } = startOf(options);
  const child = spawnProgram([thisNode, program, ...args], {
    cwd: options.cwd,
    env,
    stdio: ["pipe", "pipe", "pipe"],
    timeout: 120_000,
  });
  const ended = once(child, "close").then(([status, signal]) => ({ status, signal }));
  child.stdin.on("error", () => {});
  let stdout = "";
  let stderr = "";
  let lastId = 0;
  const waiting = new Map<number, (message: Message) => void>();
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const from = stdout.lastIndexOf("\n") + 1;
    stdout += text;
    const whole = stdout.slice(from, stdout.lastIndexOf("\n") + 1);
    for (const line of whole.split("\n").slice(0, -1)) {
      const message: Message = JSON.parse(line);
      if (message.id !== undefined) waiting.get(message.id)?.(message);
    }
  });
  const line = (text: string) => child.stdin.write(`${text}\n`);
  return {
    line,
    notify: (method, params) => line(JSON.stringify({ jsonrpc: "2.0", method, params })),
    request(method, params) {
      const id = ++lastId;
      const answer = new Promise<Message>((resolve, reject) => {
        waiting.set(id, resolve);
        ended.then(() => reject(new Error(`it ended without an answer to ${method}\n${stderr}`)));
      });
      line(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
      return answer;
    },
    closeInput: () => child.stdin.end(),
    kill: (signal) => child.kill(signal),
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** The handshake of a client, as the protocol of 2025 has it. */
export async function handshake(mcp: RawMcp): Promise<Message> {
  const answer = await mcp.request("initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  });
  mcp.notify("notifications/initialized");
  return answer;
}
