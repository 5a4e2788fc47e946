import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { spawnProgram } from "@svc/runtime/programs";

/** A port that nobody uses at this moment. */
const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });

const config = (port: number, root: string) => ({
  admin: { disabled: false },
  apps: {
    http: {
      servers: {
        sites: {
          listen: [`127.0.0.1:${port}`],
          automatic_https: { disable: true },
          routes: [{ match: [{ host: ["site.test"] }], handle: [{ handler: "file_server", root }] }],
        },
      },
    },
  },
});

/**
 * The floor of a static deployment: copying the files and one Caddy reload that points at the copy, until
 * the new page is served. Own Caddy, own directory, gone afterwards.
 */
export async function bareStatic(times: number): Promise<number[]> {
  const dir = await mkdtemp(join(tmpdir(), "svc-bench-caddy-"));
  const admin = join(dir, "admin.sock");
  const port = await freePort();
  const write = async (round: number, root: string) => {
    const file = join(dir, "caddy.json");
    const loaded = { ...config(port, root), admin: { listen: `unix/${admin}`, origins: ["caddy"] } };
    await writeFile(file, JSON.stringify(loaded));
    return { file, round, loaded };
  };
  const source = join(dir, "source");
  await mkdir(join(source, "assets"), { recursive: true });
  await writeFile(join(source, "index.html"), "round first");
  await writeFile(join(source, "assets", "style.css"), "p { color: green }\n".repeat(2_000));
  const { file } = await write(0, source);
  const caddy = spawnProgram(["caddy", "run", "--config", file], {
    stdio: "ignore",
    env: { PATH: process.env["PATH"], HOME: dir, XDG_CONFIG_HOME: dir, XDG_DATA_HOME: dir },
  });
  try {
    await served(port, "round first");
    const samples: number[] = [];
    for (let round = 0; round < times; round += 1) {
      const mark = `round ${round}`;
      await writeFile(join(source, "index.html"), mark);
      const from = performance.now();
      const target = join(dir, `site-${round}`);
      await cp(source, target, { recursive: true });
      await reload(admin, (await write(round, target)).loaded);
      await served(port, mark);
      samples.push(performance.now() - from);
    }
    return samples;
  } finally {
    const ended = new Promise((resolve) => caddy.once("exit", resolve));
    caddy.kill("SIGTERM");
    await ended;
    await rm(dir, { recursive: true, force: true });
  }
}

const reload = (socketPath: string, body: object) =>
  new Promise<void>((resolve, reject) => {
    const headers = { "content-type": "application/json", host: "caddy" };
    const call = request({ socketPath, path: "/load", method: "POST", headers, timeout: 10_000 }, (reply) => {
      reply.resume();
      reply.once("end", () =>
        reply.statusCode === 200 ? resolve() : reject(new Error(`reload: ${reply.statusCode}`)),
      );
    });
    call.once("error", reject).end(JSON.stringify(body));
  });

async function served(port: number, mark: string): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (performance.now() < deadline) {
    if ((await get(port).catch(() => "")) === mark) return;
    await delay(2);
  }
  throw new Error("the bare Caddy does not serve");
}

const get = (port: number) =>
  new Promise<string>((resolve, reject) => {
    const call = request(
      { host: "127.0.0.1", port, path: "/", headers: { host: "site.test" }, timeout: 2_000 },
      (reply) => {
        let text = "";
        reply.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        reply.once("end", () => resolve(text));
      },
    );
    call.once("error", reject).end();
  });
