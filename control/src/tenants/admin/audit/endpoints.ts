import { type AuditEntryView, auditQuery, auditReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";
import { pageOf } from "../place.ts";
import { type AuditLine, readAudit } from "./store.ts";

const entryView = ({ micros: _, at, ...line }: AuditLine): AuditEntryView => ({ ...line, at: at.toISOString() });

const list = endpoint({
  method: "GET",
  path: "/admin/audit",
  access: "admin",
  summary: "Who did what, newest first: every change, by whom, to what, when and from where.",
  query: auditQuery,
  reply: auditReply,
  async handle({ db }, { query }) {
    const { page, nextCursor } = pageOf(await readAudit(db, query), query.limit);
    return { entries: page.map(entryView), nextCursor };
  },
});

export const auditEndpoints = [list];
