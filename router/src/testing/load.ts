import { Agent, request } from "node:http";

export interface LoadResult {
  /** Answers by "status body". */
  answers: Map<string, number>;
  /** What went wrong, by message. */
  failures: Map<string, number>;
}

/**
 * Visitors that come whether or not the earlier ones were served: one request every `everyMs`, until
 * `until` settles and at least `least` were sent. Connections are kept open and used again.
 */
export async function visit(options: {
  address: string;
  host: string;
  path?: string;
  everyMs: number;
  least: number;
  until: Promise<unknown>;
  /** Told how to wait until everybody who has come by then was answered. */
  onStart?: (answered: () => Promise<unknown>) => void;
}): Promise<LoadResult> {
  const { address, host, path = "/", everyMs, least } = options;
  const [hostname, port] = address.split(":");
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const result: LoadResult = { answers: new Map(), failures: new Map() };
  const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
  const pending = new Set<Promise<void>>();
  let done = false;
  let sent = 0;

  const once = (): void => {
    sent += 1;
    const asked = new Promise<void>((resolve) => {
      const fail = (cause: Error) => {
        count(result.failures, cause.message);
        resolve();
      };
      const out = request({ hostname, port, path, agent, headers: { host }, timeout: 10_000 });
      out.once("timeout", () => out.destroy(new Error("no answer in time")));
      out.once("error", fail);
      out.once("response", (answer) => {
        let body = "";
        answer.setEncoding("utf8").on("data", (text: string) => {
          body += text;
        });
        answer.once("error", fail);
        answer.once("end", () => {
          count(result.answers, `${answer.statusCode} ${body}`);
          resolve();
        });
      });
      out.end();
    });
    pending.add(asked);
    asked.finally(() => pending.delete(asked)).catch(() => {});
  };

  options.onStart?.(() => Promise.all(pending));
  await new Promise<void>((resolve) => {
    options.until
      .finally(() => {
        done = true;
      })
      .catch(() => {});
    const startedAt = performance.now();
    const timer = setInterval(() => {
      const due = Math.floor((performance.now() - startedAt) / everyMs);
      while (sent < due) once();
      if (!done || sent < least) return;
      clearInterval(timer);
      resolve();
    }, 5);
  });
  await Promise.all(pending);
  agent.destroy();
  await options.until;
  return result;
}
