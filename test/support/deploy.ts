import { z } from "zod";
import type { ClusterClient } from "../cluster.ts";

/** What `svc deploy --json` prints, as far as tests look at it. */
const deployed = z.looseObject({
  ok: z.literal(true),
  url: z.string(),
  channel: z.string(),
  slug: z.string(),
  project: z.looseObject({ id: z.string() }),
  deployment: z.looseObject({
    id: z.string(),
    status: z.string(),
    release: z.looseObject({ status: z.string() }).optional(),
  }),
});
export type Deployed = z.infer<typeof deployed>;

/** Deploys the directory to production as a user would; throws with what the command said when it fails. */
export async function deploy(cluster: ClusterClient, cwd: string): Promise<Deployed> {
  const result = await cluster.cli(["deploy", "--prod", "--json"], { cwd });
  if (result.exitCode !== 0)
    throw new Error(`svc deploy exited with ${result.exitCode}: ${result.stdout}${result.stderr}`);
  return deployed.parse(result.json());
}

const detail = z.looseObject({
  deployment: z.looseObject({
    id: z.string(),
    status: z.string(),
    error: z.string().nullable(),
    artifact: z.looseObject({ digest: z.string().nullable(), requestedReference: z.string() }).optional(),
  }),
});

export async function getDeployment(cluster: ClusterClient, id: string) {
  const { body } = await cluster.api("GET", `/deployments/${id}`);
  return detail.parse(body).deployment;
}

const project = z.looseObject({ deployments: z.array(z.looseObject({ id: z.string(), status: z.string() })) });

/** The newest deployment of a project; null when it has none. */
export async function newestDeployment(cluster: ClusterClient, projectId: string) {
  const { body } = await cluster.api("GET", `/projects/${projectId}`);
  return project.parse(body).deployments[0] ?? null;
}

const facts = z.object({ platform: z.record(z.string(), z.string()), hostname: z.string() });

/** What the `ssr` example says about itself. */
export const parseFacts = (body: unknown) => facts.parse(body);
