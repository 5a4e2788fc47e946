import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import { sameAddress } from "../hosts/address.ts";
import { claimHost, type HostOwner, listSiteHosts } from "../hosts/hosts.ts";
import { hostUrl } from "../projects/view.ts";
import { liveStatuses, lockLiveDeployments } from "./deployments.ts";

/**
 * Gives back what the project holds of `slug`, which it was about to get and never had: hosts that were made for it
 * go, those that redirected before do so again, and a slug that it had and that still serves goes on. `project` says
 * which slug comes next instead. A deployment whose only address goes gets the one that it would have had. Needs the
 * project locked.
 */
export async function giveUpSlug(tx: Db, project: HostOwner, slug: string, content: Config["content"]): Promise<void> {
  const gone = await tx
    .deleteFrom("site_host")
    .where("project_id", "=", project.id)
    .where("slug", "=", slug)
    .where("for_next_slug", "=", true)
    .where("redirect_to", "is", null)
    .where("redirected_until", "is", null)
    .returning(["host", "channel", "pr_number"])
    .execute();
  await redirectAgain(tx, project, slug);
  if (gone.length === 0) return;
  await lockLiveDeployments(tx, project.id);
  for (const { host, channel, pr_number: prNumber } of gone) {
    const instead = await claimHost(tx, project, { channel, prNumber }, content.domain);
    await tx
      .updateTable("deployment")
      .set({ url: hostUrl(instead, content) })
      .where("project_id", "=", project.id)
      .where("url", "=", hostUrl(host, content))
      .where("status", "in", liveStatuses)
      .execute();
  }
}

/** Redirects lead to the present slug's hosts, as they did before: it has not changed since. */
async function redirectAgain(tx: Db, project: HostOwner, slug: string): Promise<void> {
  const hosts = await listSiteHosts(tx, project);
  const own = hosts.filter((host) => host.slug === project.slug && host.redirectTo === null);
  for (const host of hosts.filter((each) => each.slug === slug)) {
    const to = own.find((each) => sameAddress(each, host));
    if (to === undefined) continue;
    await tx
      .updateTable("site_host")
      .set(({ ref }) => ({
        redirect_to: to.host,
        redirect_until: ref("redirected_until"),
        redirected_until: null,
      }))
      .where("host", "=", host.host)
      .where("redirected_until", "is not", null)
      .execute();
  }
}
