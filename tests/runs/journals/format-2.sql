BEGIN TRANSACTION;
CREATE TABLE debt (
    kind text not null, target_kind text not null, name text not null, ref text not null, detail text not null,
    opened text not null, settled text, sent text, primary key (kind, ref)
) strict;
INSERT INTO "debt" VALUES('off','vm','train-01','VirtualMachine:vm-1','','2026-01-01T00:00:02.000+00:00',NULL,NULL);
INSERT INTO "debt" VALUES('maintenance','host','esx01','HostSystem:host-1','','2026-01-01T00:00:05.000+00:00','2026-01-01T00:00:21.000+00:00',NULL);
INSERT INTO "debt" VALUES('gate','host','esx01','HostSystem:host-1','','2026-01-01T00:00:06.000+00:00',NULL,NULL);
INSERT INTO "debt" VALUES('reboot','host','esx01','HostSystem:host-1','2025-12-31T00:00:00+00:00','2026-01-01T00:00:11.000+00:00','2026-01-01T00:00:16.000+00:00','2026-01-01T00:00:12.000+00:00');
INSERT INTO "debt" VALUES('maintenance','host','esx02','HostSystem:host-2','','2026-01-01T00:00:23.000+00:00',NULL,NULL);
INSERT INTO "debt" VALUES('gate','host','esx02','HostSystem:host-2','','2026-01-01T00:00:24.000+00:00',NULL,NULL);
CREATE TABLE run (key text primary key, value text not null) strict;
INSERT INTO "run" VALUES('format','2');
INSERT INTO "run" VALUES('vsphere_ai','"0.1.0"');
INSERT INTO "run" VALUES('started','"2026-01-01T00:00:00.000+00:00"');
INSERT INTO "run" VALUES('pid','4242');
INSERT INTO "run" VALUES('born','"boot/1"');
INSERT INTO "run" VALUES('user','"alice"');
INSERT INTO "run" VALUES('machine','"ops1"');
INSERT INTO "run" VALUES('what','"play.yml"');
INSERT INTO "run" VALUES('inventory','"/inventory.yml"');
INSERT INTO "run" VALUES('instance','"i"');
INSERT INTO "run" VALUES('scope','{"vcenter": "lab"}');
INSERT INTO "run" VALUES('approved','{"steps": [], "items": [], "impact": {}}');
CREATE TABLE seal (what text primary key, sum text not null) strict;
INSERT INTO "seal" VALUES('run/format','d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35');
INSERT INTO "seal" VALUES('run/vsphere_ai','8e633b4f41f99d4c388915bc852f2143cf4e9f5eaad70c76a81d4f4aa629eec1');
INSERT INTO "seal" VALUES('run/started','3a8735d462363ed3fc64e604824e1b2396f5fe0c192415a64c939829718acfb2');
INSERT INTO "seal" VALUES('run/pid','0315b4020af3eccab7706679580ac87a710d82970733b8719e70af9b57e7b9e6');
INSERT INTO "seal" VALUES('run/born','47b86129a0f1a3813783235ff9a431203b73cab097b9c20282f17606211dbffd');
INSERT INTO "seal" VALUES('run/user','0a50500b2a3435fe7472877eb22d48d47a228e946b0b991ab7402a8d00f6b32d');
INSERT INTO "seal" VALUES('run/machine','1bcc8bfd8b5d0be575f8f2c0a593623e48d20790aaf377c91e00339b7afb8d3e');
INSERT INTO "seal" VALUES('run/what','612bf13f36090c9a9dc8d7331c2197cee2951acf4e8e337fdfee0b40176a0e07');
INSERT INTO "seal" VALUES('run/inventory','33931564f06f6bbb05864b87bcc0ceced85bf2f2f8db5328840ba90012983b42');
INSERT INTO "seal" VALUES('run/instance','a05447c5b6502c5938db0f77f99354078bd88674bb56712709fd2cfdbcd56ac2');
INSERT INTO "seal" VALUES('run/scope','58f29b81ff7f3a9fe8e65d0615dd4a1b1fe1b380613a6ece4c6a981e79c5f6d1');
INSERT INTO "seal" VALUES('run/approved','03ea9b1acea8bbe63999d6896d50640ebd8164a1e96358fd7fbe8b3bf15314fa');
INSERT INTO "seal" VALUES('debt/off/VirtualMachine:vm-1','9c3c917be74e06173a86bc9fbf835761ccf423a2301093f735c47a881d3bca49');
INSERT INTO "seal" VALUES('debt/maintenance/HostSystem:host-1','441b363a94836999ed2a9444462ed1c6dd6a3668d39129e206c4624799bffe0a');
INSERT INTO "seal" VALUES('debt/gate/HostSystem:host-1','235694d5fd7995bc4eb305954b152e4ea9a544941c7210731989586cd7f88696');
INSERT INTO "seal" VALUES('debt/reboot/HostSystem:host-1','0021525448dfbd4dc8ef14105963023c2dfb70e4681714833f036407dbf5944d');
INSERT INTO "seal" VALUES('debt/maintenance/HostSystem:host-2','caa849333167cd8ceabc510801c616e5e90d2d7f86433890715f377e1074362f');
INSERT INTO "seal" VALUES('debt/gate/HostSystem:host-2','c687ddf41c84c5f11494d5b1ec4f6839caa32aabe656410306bc61ee28789d20');
CREATE TABLE step (
    attempt integer not null, id text not null, target text not null, summary text not null,
    state text not null, began text not null, ended text, error text, task text, primary key (attempt, id)
) strict;
INSERT INTO "step" VALUES(1,'s1','train-01','shut down (guest shutdown only)','done','2026-01-01T00:00:01.000+00:00','2026-01-01T00:00:03.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s2','esx01','enter maintenance mode','done','2026-01-01T00:00:04.000+00:00','2026-01-01T00:00:07.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s3','esx01','default graphics type: shared_direct','done','2026-01-01T00:00:08.000+00:00','2026-01-01T00:00:09.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s4','esx01','reboot (over SSH)','done','2026-01-01T00:00:10.000+00:00','2026-01-01T00:00:13.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s5','esx01','wait until the host is connected with a newer boot time','done','2026-01-01T00:00:14.000+00:00','2026-01-01T00:00:15.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s6','esx01','read back','done','2026-01-01T00:00:17.000+00:00','2026-01-01T00:00:18.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s7','esx01','leave maintenance mode','done','2026-01-01T00:00:19.000+00:00','2026-01-01T00:00:20.000+00:00','',NULL);
INSERT INTO "step" VALUES(1,'s8','esx02','enter maintenance mode','failed','2026-01-01T00:00:22.000+00:00','2026-01-01T00:00:25.000+00:00','vCenter refused it',NULL);
COMMIT;
