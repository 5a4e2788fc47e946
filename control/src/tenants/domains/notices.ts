import { limits } from "@svc/proto";
import { proofName, proofValue } from "@svc/proto/domains";
import type { Mailer } from "../../identity/mail/mailer.ts";
import type { Message } from "../../identity/mail/messages.ts";
import { instanceName } from "../../settings/instance-name.ts";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";

/** Work of this kind tells the owner of a domain by mail that its proof is gone. */
export const noticeWork = "domain-notice";

export interface DomainNotice {
  domainId: string;
}

export interface NoticeDeps {
  db: Db;
  /** Null: the installation sends no mail. */
  mailer: Mailer | null;
  apiUrl: Config["apiUrl"];
}

export function domainNoticeWorker({ db, mailer, apiUrl }: NoticeDeps): WorkHandler {
  return async (item) => {
    const { domainId } = item.payload as DomainNotice;
    if (mailer === null) return { state: "done" };
    const row = await db
      .selectFrom("custom_domain")
      .innerJoin("project", "project.id", "custom_domain.project_id")
      .innerJoin("auth.user", "auth.user.id", "project.owner_id")
      .select(["custom_domain.domain", "txt_token", "failing_since", "project.slug", "email", "emailVerified"])
      .where("custom_domain.id", "=", domainId)
      .executeTakeFirst();
    // The proof may be back, or the domain detached: an old story helps nobody.
    if (row?.failing_since == null || !row.emailVerified) return { state: "done" };
    const facts = { instance: instanceName(apiUrl), since: row.failing_since, slug: row.slug };
    await mailer.send(row.email, goneMessage({ ...facts, domain: row.domain, token: row.txt_token }));
    return { state: "done" };
  };
}

interface GoneFacts {
  instance: string;
  domain: string;
  token: string;
  slug: string;
  since: Date;
}

const dayMs = 86_400_000;
const day = (at: Date): string => at.toISOString().slice(0, 10);

/** The proof of a domain is gone, and when the domain will be. */
function goneMessage({ instance, domain, token, slug, since }: GoneFacts): Message {
  const until = new Date(since.getTime() + limits.domainGraceDays * dayMs);
  return {
    subject: `${domain} will stop serving: its DNS record is gone`,
    text: [
      `The DNS record which shows that ${domain} is yours has been gone since ${day(since)}. The domain still leads to your project ${slug} on ${instance}, until ${day(until)}; after that it serves nothing, and somebody else may attach it.`,
      `Put the record back to keep it:\n${proofName(domain)}  TXT  ${proofValue(token)}`,
      `If the domain is not to lead there any more, remove it:\nsvc domains rm ${domain} --project ${slug}`,
      "",
    ].join("\n\n"),
  };
}
