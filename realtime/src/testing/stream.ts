import { once } from "node:events";
import {
  type Agent,
  type ClientRequest,
  get,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from "node:http";

/** A stream as a client has it: status, headers, and every byte so far. */
export interface Stream extends Disposable {
  status: number;
  headers: IncomingHttpHeaders;
  readonly text: string;
  /** Resolves when the server has ended it, well or not. */
  ended: Promise<void>;
  /** Neither reads on nor leaves. */
  stall(): void;
}

/** Resolves once the headers are here. */
export async function open(url: string, headers: Record<string, string> = {}): Promise<Stream> {
  const { request, answer } = await begin(url, headers);
  let text = "";
  answer.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  answer.on("error", () => {});
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    get text() {
      return text;
    },
    ended: new Promise((resolve) => void answer.on("close", resolve)),
    stall: () => void answer.pause(),
    [Symbol.dispose]: () => void request.destroy(),
  };
}

async function begin(
  url: string,
  headers: Record<string, string>,
): Promise<{ request: ClientRequest; answer: IncomingMessage }> {
  const request = get(url, { headers, agent: false });
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  request.on("error", () => {});
  return { request, answer };
}

/** What a HEAD is answered, over a connection of the agent's. */
export async function head(url: string, agent: Agent): Promise<Pick<Stream, "status" | "headers">> {
  const asking = request(url, { method: "HEAD", agent }).end();
  const [answer] = (await once(asking, "response")) as [IncomingMessage];
  await once(answer.resume(), "end");
  return { status: answer.statusCode ?? 0, headers: answer.headers };
}

/** A request that is under way and not answered. */
export function ask(url: string): Disposable {
  const request = get(url, { agent: false }).on("error", () => {});
  return { [Symbol.dispose]: () => void request.destroy() };
}
