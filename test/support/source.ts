import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type DeploymentStatus, deploymentStatuses, isSettled } from "@svc/proto";
import { run } from "@svc/runtime/command";
import { z } from "zod";
import type { Cluster } from "../cluster.ts";
import { waitFor } from "./wait-for.ts";

const settleMs = 180_000;

export interface SourceDeploy {
  projectId: string;
  manifest: object;
  /** Texts by their path in the archive. */
  files: Record<string, string>;
  metadata?: object;
}

const created = z.looseObject({ deploymentId: z.string(), url: z.string() });

/** Uploads a source by the API alone, without the command line's packing. Throws with the reply when it is refused. */
export async function postSource(
  { platform, key }: Cluster,
  { projectId, manifest, files, metadata }: SourceDeploy,
): Promise<{ id: string; url: string }> {
  const form = new FormData();
  form.set("manifest", JSON.stringify(manifest));
  if (metadata !== undefined) form.set("metadata", JSON.stringify(metadata));
  form.set("source", new Blob([await pack(files)]), "source.tar.gz");
  const reply = await fetch(`${platform.apiUrl}/api/v1/projects/${projectId}/deployments`, {
    method: "POST",
    headers: { "x-api-key": key },
    body: form,
    signal: AbortSignal.timeout(60_000),
  });
  const text = await reply.text();
  if (reply.status !== 202) throw new Error(`the upload was answered with ${reply.status}: ${text}`);
  const { deploymentId, url } = created.parse(JSON.parse(text));
  return { id: deploymentId, url };
}

async function pack(files: Readonly<Record<string, string>>): Promise<Buffer<ArrayBuffer>> {
  const dir = await mkdtemp(join(tmpdir(), "svc-source-"));
  try {
    const tree = join(dir, "tree");
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(tree, path)), { recursive: true });
      await writeFile(join(tree, path), text);
    }
    await run(["tar", "-czf", join(dir, "source.tar.gz"), "-C", tree, "."]);
    return Buffer.from(await readFile(join(dir, "source.tar.gz")));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const deployment = z.looseObject({
  id: z.string(),
  status: z.enum(deploymentStatuses),
  channel: z.string(),
  url: z.string(),
  error: z.string().nullable(),
  release: z.looseObject({
    status: z.string(),
    exitCode: z.int().nullable(),
    error: z.string().nullable(),
    skippedReason: z.string().nullable(),
  }),
  portableArtifact: z.looseObject({ digest: z.string().nullable() }),
});
export type FoundDeployment = z.infer<typeof deployment>;

export async function findDeployment(cluster: Cluster, id: string): Promise<FoundDeployment> {
  return deployment.parse((await cluster.api("GET", `/deployments/${id}`)).body["deployment"]);
}

/** The deployment once it is on its way no more, however that ended. */
export const settled = (cluster: Cluster, id: string, timeoutMs = settleMs): Promise<FoundDeployment> =>
  waitFor(`the end of deployment ${id}`, timeoutMs, async () => {
    const found = await findDeployment(cluster, id);
    return isSettled(found.status) ? found : null;
  });

/** The deployment once it runs. Throws with its error and its log when it ends otherwise. */
export async function running(cluster: Cluster, id: string): Promise<FoundDeployment> {
  const found = await settled(cluster, id);
  if (found.status === "running") return found;
  const { body } = await cluster.api("GET", `/deployments/${id}/logs`);
  throw new Error(`deployment ${id} is ${found.status}: ${found.error}\n${String(body["log"])}`);
}

/** What a deployment's timeline says, oldest first. */
export async function phasesOf(
  cluster: Cluster,
  id: string,
): Promise<{ phase: string; to: DeploymentStatus | null }[]> {
  const { body } = await cluster.api("GET", `/deployments/${id}/timeline`);
  const event = z.looseObject({ phase: z.string(), to: z.enum(deploymentStatuses).nullable() });
  return z.array(event).parse(body["timeline"]);
}
