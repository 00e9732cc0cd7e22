/** What the page that signs in says. */
export default {
  en: {
    "sign.title": "Sign in",
    "sign.how": "The server prints a link when it starts, and `lingua link` makes another. Each opens once, within a few minutes. Open it in this browser, or paste it here.",
    "sign.link": "Link",
    "sign.go": "Sign in",
    "sign.going": "Signing in …",
    "sign.LINK_GONE": "This link was used already, or its time is over. `lingua link` makes another.",
    "sign.wrong": "That did not work: {why}",
  },
  zh: {
    "sign.title": "登录",
    "sign.how": "服务器启动时会打印一个链接，`lingua link` 可以再生成一个。每个链接只能在几分钟内打开一次。请在此浏览器中打开它，或粘贴到这里。",
    "sign.link": "链接",
    "sign.go": "登录",
    "sign.going": "正在登录……",
    "sign.LINK_GONE": "此链接已被使用或已过期。用 `lingua link` 再生成一个。",
    "sign.wrong": "未能登录：{why}",
  },
};
