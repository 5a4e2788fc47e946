import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import type Docker from "dockerode";
import { z } from "zod";
import { createKey, listProjects, revokeKey, signIn } from "./api.ts";
import { baseRepository } from "./base-image.ts";
import { environmentOf } from "./environment.ts";
import { nodeBinary, repositoryRoot } from "./paths.ts";
import { portSettings } from "./ports.ts";
import { follow, pushImage } from "./push-image.ts";
import type { OperatedRegistry } from "./registry.ts";
import { becomesServed } from "./served.ts";

export const exampleNames = ["static", "ssr", "database", "ociimage"] as const;
export type ExampleName = (typeof exampleNames)[number];

/** Projects that the examples become. That of the image has no slug of its own, so it gets one from its name. */
const slugs: Record<ExampleName, string> = {
  static: "example-static",
  ssr: "example-ssr",
  database: "example-database",
  ociimage: "tide-clock",
};

const imageRepository = "examples/tide-clock";
const imageTag = "1.0.0";
const deployMs = 15 * 60_000;
const daySeconds = 86_400;
const servedMs = 60_000;

const exampleDir = (name: ExampleName) => join(repositoryRoot, "deploy", "examples", name);

/**
 * Copies an example to `targetDir` without what builds leave behind. The image example then names the
 * given registry, which is on another port than usual when the platform was told so.
 */
export async function copyExample(name: ExampleName, targetDir: string, registryHost: string): Promise<void> {
  const left = new Set(["node_modules", "dist", ".svc"]);
  await rm(targetDir, { recursive: true, force: true });
  await mkdir(targetDir, { recursive: true });
  await cp(exampleDir(name), targetDir, {
    recursive: true,
    filter: (path) => !left.has(path.slice(path.lastIndexOf("/") + 1)),
  });
  if (name !== "ociimage") return;
  const manifest = join(targetDir, "svc.yml");
  const text = await readFile(manifest, "utf8");
  await writeFile(manifest, text.replaceAll(`127.0.0.1:${portSettings.registry.port}`, registryHost));
}

export interface ImageTarget {
  docker: Docker;
  baseImage: string;
  registry: OperatedRegistry;
}

/** Builds the image of the `ociimage` example and pushes it to the platform's registry. Returns its digest. */
export async function publishExampleImage({ docker, baseImage, registry }: ImageTarget): Promise<string> {
  const name = `${registry.host}/${imageRepository}`;
  const context = { context: join(exampleDir("ociimage"), "image"), src: ["Dockerfile", "server.mjs"] };
  await follow(docker, await docker.buildImage(context, { t: `${name}:${imageTag}`, buildargs: { BASE: baseImage } }));
  await pushImage(docker, `${name}:${imageTag}`, await registry.pushToken(imageRepository, baseRepository));
  const { RepoDigests } = await docker.getImage(`${name}:${imageTag}`).inspect();
  const digest = RepoDigests?.find((one) => one.startsWith(`${name}@`))?.split("@")[1];
  if (digest === undefined) throw new Error(`the registry gave no digest for ${name}`);
  return digest;
}

const envelope = z.looseObject({
  ok: z.boolean(),
  url: z.string().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
});

/** Runs the command line in `cwd` as its user would, and returns its envelope. Throws `CommandError` when it fails. */
export async function deployByCli(options: {
  apiUrl: string;
  key: string;
  cwd: string;
  configDir: string;
  env: NodeJS.ProcessEnv;
}): Promise<{ url: string }> {
  const { stdout } = await run(
    [nodeBinary(), join(repositoryRoot, "cli", "bin", "svc.mjs"), "deploy", "--prod", "--json"],
    {
      cwd: options.cwd,
      timeoutMs: deployMs,
      env: environmentOf(options.env, {
        SVC_API_URL: options.apiUrl,
        SVC_TOKEN: options.key,
        XDG_CONFIG_HOME: options.configDir,
      }),
    },
  );
  const reply = envelope.parse(JSON.parse(stdout));
  if (!reply.ok || reply.url === undefined) throw new Error(reply.error?.message ?? "svc deploy returned no url");
  return { url: reply.url };
}

export interface DeployedExample {
  name: ExampleName;
  url: string;
}

/**
 * Deploys those examples, by the real command line, that have no deployment yet or whose last one failed.
 * What a user stopped or changed stays as it is. Returns all examples that have a site.
 */
export async function deployExamples(options: {
  clock: Clock;
  apiUrl: string;
  account: { email: string; password: string };
  image: ImageTarget;
  workDir: string;
  env: NodeJS.ProcessEnv;
  log: (line: string) => void;
}): Promise<DeployedExample[]> {
  const { clock, apiUrl, image, workDir, log } = options;
  const session = await signIn(clock, apiUrl, options.account);
  const { key } = await createKey(clock, apiUrl, session, { name: "local set-up", expiresInSeconds: daySeconds });
  try {
    const projects = await listProjects(clock, apiUrl, key);
    const deployed: DeployedExample[] = [];
    for (const name of exampleNames) {
      const project = projects.find(({ slug }) => slug === slugs[name]);
      if (project !== undefined && project.status !== null && project.status !== "failed") {
        // After a start of the whole platform its container comes up just now; what a user stopped does not.
        const expected = project.status === "running" && project.suspendedAt === null;
        if (expected && !(await becomesServed(clock, project.url, servedMs))) log(`${project.url} does not answer yet`);
        deployed.push({ name, url: project.url });
        continue;
      }
      const startedAtMs = clock.steadyMs();
      const cwd = join(workDir, name);
      await copyExample(name, cwd, image.registry.host);
      if (name === "ociimage") await publishExampleImage(image);
      const { url } = await deployByCli({ apiUrl, key, cwd, configDir: join(workDir, "config"), env: options.env });
      log(`deployed the ${name} example (${((clock.steadyMs() - startedAtMs) / 1000).toFixed(1)} s)`);
      deployed.push({ name, url });
    }
    return deployed;
  } finally {
    await revokeKey(clock, apiUrl, key).catch((error) => log(`the set-up key was not revoked: ${error}`));
  }
}
