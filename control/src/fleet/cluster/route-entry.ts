/** What one host serves. Shape of the values under routes/table/: JSON of the protobuf Route message. */
export interface RouteEntry {
  host: string;
  projectId: string;
  channel: string;
  deploymentId?: string;
  /** `entrances`: those of the upstreams that are entrances; absent: none is. */
  proxy?: { upstreams: string[]; entrances?: string[] };
  static?: { repository: string; digest: string; sizeBytes: string; spa?: boolean };
  page?: { page: "PAGE_STOPPED" | "PAGE_SUSPENDED" | "PAGE_EMPTY" | "PAGE_DOWN" };
  redirect?: { host: string };
  /** Revision of the site's password; absent: the site is open. */
  gate?: string;
  /** What browsers are told over TLS; absent: nothing. */
  hsts?: { maxAgeSeconds: number; includeSubdomains?: boolean };
}
