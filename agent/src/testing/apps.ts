import { randomUUID } from "node:crypto";
import { packTar, type TarEntry } from "../build/tar.ts";
import type { Engine } from "../engine/engine.ts";

/**
 * An image of one script, which Node runs. Returns its reference by digest in the registry at `host`.
 *
 * @param volumes what the image says to be volumes
 */
export async function pushApp(
  engine: Engine,
  host: string,
  script: string,
  volumes: readonly string[] = [],
): Promise<string> {
  const lines = ["FROM node:24-slim", "COPY app.js /", ...volumes.map((path) => `VOLUME ${path}`), "USER node"];
  const dockerfile = `${lines.join("\n")}\nCMD ["node", "/app.js"]\n`;
  async function* entries(): AsyncGenerator<TarEntry> {
    for (const [name, text] of Object.entries({ Dockerfile: dockerfile, "app.js": script })) {
      yield { kind: "bytes", name, executable: false, content: Buffer.from(text) };
    }
  }
  const never = new AbortController().signal;
  const target = { repository: `${host}/svc/test/app`, tag: randomUUID() };
  const tag = `${target.repository}:${target.tag}`;
  await engine.buildImage(
    (owner) => packTar(entries(), owner),
    { tag, dockerfile: "Dockerfile", buildArgs: {} },
    () => {},
    never,
  );
  return `${target.repository}@${await engine.pushImage(target, null, never)}`;
}
