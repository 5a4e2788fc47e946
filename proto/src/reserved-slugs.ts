/** Mailboxes and services that every domain is expected to have (RFC 2142): who has the host is taken for whom it names. */
const ofEveryDomain = [
  ...["info", "marketing", "sales", "support", "abuse", "noc", "security"],
  ...["postmaster", "hostmaster", "webmaster", "usenet", "news", "uucp", "www", "ftp"],
];

/** Hosts that programs look for in a domain by themselves, and believe. */
const lookedFor = [
  ...["localhost", "local", "internal", "localdomain", "wpad", "isatap"],
  ...["mail", "smtp", "imap", "pop", "pop3", "webmail", "autoconfig", "autodiscover", "mta-sts", "openpgpkey"],
  ...["ns1", "ns2", "ns3", "ns4", "dns", "ntp", "ldap", "sip", "lyncdiscover"],
  ...["enterpriseregistration", "enterpriseenrollment"],
];

/** Where people expect the platform itself, and would type a password. */
const takenForThePlatform = [
  ...["api", "app", "admin", "administrator", "root", "system", "staff", "official", "console", "dashboard", "portal"],
  ...["auth", "login", "logout", "signin", "sign-in", "signup", "sign-up", "register", "sso", "oauth", "account"],
  ...["accounts", "password", "secure", "billing", "payment", "payments", "invoice", "invoices", "checkout"],
  ...["help", "helpdesk", "docs", "status", "legal", "privacy", "terms", "trust"],
  ...["ssl", "tls", "cert", "certificate", "certificates", "acme"],
  ...["svc", "control", "registry", "edge", "router", "node", "nodes", "cluster", "metrics", "health"],
  ...["static", "assets", "cdn", "media", "git", "ssh", "vpn", "proxy", "gateway", "test", "preview", "dev"],
];

/** Names that no project can have. Whoever had one before it was reserved keeps it. */
export const reservedSlugs: ReadonlySet<string> = new Set([
  // In a request it asks for one that is made up.
  "auto",
  ...ofEveryDomain,
  ...lookedFor,
  ...takenForThePlatform,
]);
