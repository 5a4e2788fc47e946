import { z } from "zod";
import { limits } from "../limits.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";

/** pending: its proof is looked for. failed: it was not there in time, or not any more. */
export const domainStatuses = ["pending", "verified", "failed"] as const;
export type DomainStatus = (typeof domainStatuses)[number];

/** Which channel a domain leads to; disabled: nowhere, though it stays attached. */
export const routingTargets = ["production", "preview", "dev", "disabled"] as const;
export type RoutingTarget = (typeof routingTargets)[number];

/**
 * Where a domain leads by DNS, which is for people to know and decides nothing about whose it is. direct: to edges alone.
 * proxied: to a known proxy, which may pass visitors on. not-pointing: somewhere else, also in part. unresolved: nowhere.
 */
export const dnsStatuses = ["direct", "proxied", "unresolved", "not-pointing"] as const;
export type DnsStatus = (typeof dnsStatuses)[number];

/** Whether visitors of the domain come here, perhaps through a proxy. Null: nobody has looked yet. */
export const leadsHere = (status: DnsStatus | null): boolean => status === "direct" || status === "proxied";

/** none: none is wanted now. pending: it is on its way. failed: it could not be had, and is tried again. */
export const domainCertificateStatuses = ["none", "pending", "issued", "failed"] as const;

/** What the owner of a zone writes into it. */
const domainRecords = replyObject({
  txtName: z.string(),
  txtValue: z.string(),
  /** Where a CNAME leads, which every name but an apex can have. */
  cnameTarget: z.string(),
  /** Where an A record leads; null: the installation has not said. */
  aRecordIp: z.string().nullable(),
  aRecordIps: z.array(z.string()),
  aaaaRecordIps: z.array(z.string()),
  apex: z.boolean(),
});
export type DomainRecords = z.output<typeof domainRecords>;

/** What browsers are told over TLS: to ask for the domain over TLS alone for so long. It is never `preload`. */
const domainHsts = z.strictObject({
  /** 0 has browsers forget what they were told. */
  maxAgeSeconds: z.int().min(0).max(limits.hstsMaxAgeSecondsMax),
  /** All names below the domain, too, also those that lead elsewhere. */
  includeSubdomains: z.boolean().default(false),
});

export const customDomain = replyObject({
  id,
  /** In A-labels. */
  domain: z.string(),
  status: z.enum(domainStatuses),
  routingTarget: z.enum(routingTargets),
  /**
   * Host that visitors are sent to: another domain of the project, or its production host. While that is not verified or is
   * disabled, and where it is null, the domain serves what `routingTarget` says.
   */
  redirectTo: z.string().nullable(),
  /** Null: browsers are told nothing. */
  hsts: replyObject({ maxAgeSeconds: z.number(), includeSubdomains: z.boolean() }).nullable(),
  /** Before the first look: unresolved. */
  dnsStatus: z.enum(dnsStatuses),
  /** Why it is not verified, or what is wrong with one that is; null: nothing is. */
  reason: z.string().nullable(),
  /** Until when its proof is looked for; null: it is found, or nobody looks any more. */
  verifyUntil: timestamp.nullable(),
  verifiedAt: timestamp.nullable(),
  lastCheckedAt: timestamp.nullable(),
  createdAt: timestamp,
  /** Null: the installation gets no certificates for domains. */
  certificate: replyObject({
    status: z.enum(domainCertificateStatuses),
    notAfter: timestamp.nullable(),
    reason: z.string().nullable(),
  }).nullable(),
  /** Absent from a domain that is verified, whose proof stands, and that leads here. */
  records: domainRecords.exactOptional(),
});
export type CustomDomain = z.output<typeof customDomain>;

export const domainParams = z.strictObject({ id, domainId: id });

export const domainListReply = success({
  /** By name. */
  domains: z.array(customDomain),
  /** Of the owner's plan, for each project. */
  maxCustomDomains: count,
});

/** What it is, and whether it may be had, the server says: a name in any spelling. */
export const addDomainInput = z.strictObject({ domain: z.string().min(1).max(limits.domainTextLengthMax) });
export const changeDomainInput = z
  .strictObject({
    routingTarget: z.enum(routingTargets).exactOptional(),
    /** In any spelling; null: it serves. */
    redirectTo: z.string().min(1).max(limits.domainTextLengthMax).nullable().exactOptional(),
    hsts: domainHsts.nullable().exactOptional(),
  })
  .refine((body) => Object.keys(body).length > 0, "names nothing to change");
export type ChangeDomainInput = z.output<typeof changeDomainInput>;

/** Of every change. What follows from it, edges learn within seconds. */
export const domainReply = success({ domain: customDomain, queued: z.literal(true) });
