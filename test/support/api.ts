import type { ClusterClient } from "../cluster.ts";

/** The body of a reply that is no refusal; throws with it otherwise. */
export async function succeeded(
  cluster: ClusterClient,
  method: string,
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const reply = await cluster.api(method, path, body);
  if (reply.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(reply.body)}`);
  return reply.body;
}

/** Gives the administrator's account a plan that is there. */
export async function takePlan(cluster: ClusterClient, slug: string): Promise<void> {
  const { user } = (await succeeded(cluster, "GET", "/me")) as { user: { id: string } };
  await succeeded(cluster, "POST", `/admin/users/${user.id}/plan`, { plan: slug });
}
