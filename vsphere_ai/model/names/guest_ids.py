"""Guest systems that a VM declares (`config.guestId`): which are Linux, and which are certainly not."""

from __future__ import annotations

import re

LINUX = re.compile(
    r"(almalinux|amazonlinux|asianux|centos|coreos|debian|fedora|flatcar|fusionos|genericLinux|kylinlinux|mandr|"
    r"miraclelinux|nld|oes|opensuse|oracleLinux|other(\d+x)?Linux|pardus|prolinux|redhat|rhel|rockylinux|sles|suse|"
    r"turboLinux|ubuntu|vmwarePhoton)"
)
NOT_LINUX = re.compile(
    r"(win|darwin|dos|eComStation|freebsd|netware|openServer|os2|sjds|solaris|unixWare|vmkernel|crx)"
)
