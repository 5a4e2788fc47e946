import { Readable } from "node:stream";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { isDeclared } from "../declared.ts";
import type { Endpoint } from "../endpoint.ts";

/** Listens at the way out of `server` for refusals that their endpoint does not declare. */
export interface Undeclared {
  /** "METHOD path: status code" of each, once. */
  seen: ReadonlySet<string>;
}

/** To be called before the server listens. Looks only at routes of the API: pages and identity have shapes of their own. */
export function watchUndeclared(server: FastifyInstance): Undeclared {
  const seen = new Set<string>();
  const look = (request: FastifyRequest, status: number, text: string): void => {
    const { endpoint: spec } = request.routeOptions.config as { endpoint?: Endpoint };
    if (spec === undefined) return;
    const code = codeOf(text);
    if (!isDeclared(spec, status, code)) seen.add(`${spec.method} ${spec.path}: ${status} ${code}`);
  };
  server.addHook("onSend", async (request, reply, payload) => {
    const { statusCode: status } = reply;
    if (status < 400) return payload;
    if (!(payload instanceof Readable)) {
      look(request, status, String(payload));
      return payload;
    }
    // A refusal that ends the connection is sent bit by bit; its text comes first.
    return Readable.from(
      passed(payload, (text) => look(request, status, text)),
      { objectMode: false },
    );
  });
  return { seen };
}

async function* passed(body: Readable, look: (text: string) => void): AsyncGenerator<Buffer> {
  let first = true;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (first) look(chunk.toString());
    first = false;
    yield chunk;
  }
}

function codeOf(text: string): string {
  try {
    return String((JSON.parse(text) as { error: { code: unknown } }).error.code);
  } catch {
    return "without an envelope";
  }
}
