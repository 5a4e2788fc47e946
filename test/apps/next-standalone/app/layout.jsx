import "./style.css";

export const metadata = { title: "Night bus" };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
